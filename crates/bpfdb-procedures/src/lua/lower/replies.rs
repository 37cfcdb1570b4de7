//! Statuses and errors: `redis.status_reply`, `redis.error_reply`, and the tables that these
//! make.

use super::super::constants::constant;
use super::super::syntax::{Expression, ExpressionKind, Field};
use super::super::unsupported::{TABLES, Unsupported};
use super::{Lowered, Lowering};
use crate::ir::{Operand, Operation, Register};

impl<'a> Lowering<'a> {
    /// `{ok = text}`, `{err = text}`
    pub(super) fn reply_table(
        &mut self,
        line: u32,
        fields: &'a [Field],
        to: Option<Register>,
    ) -> Lowered<Operand> {
        let [Field::Named(key, value)] = fields else {
            return Err(Unsupported::new(line, TABLES));
        };
        match &key.kind {
            ExpressionKind::Text(name) if name == b"ok" => self.status(value, to),
            ExpressionKind::Text(name) if name == b"err" => {
                let text = self.reply_text(value)?;
                Ok(self.compute(to, |to| Operation::Error(to, text)))
            }
            _ => Err(Unsupported::new(line, TABLES)),
        }
    }

    pub(super) fn status(
        &mut self,
        text: &'a Expression,
        to: Option<Register>,
    ) -> Lowered<Operand> {
        let text = self.reply_text(text)?;
        Ok(self.compute(to, |to| Operation::Status(to, text)))
    }

    /// Anything but a string makes another reply. What is known only when it runs, the
    /// operation looks at.
    fn reply_text(&mut self, text: &'a Expression) -> Lowered<Operand> {
        match self.value(text)? {
            Operand::Integer(_) | Operand::Nil | Operand::Boolean(_) => Err(Unsupported::left(
                text.line,
                "a reply with anything but a string",
            )),
            text => Ok(text),
        }
    }

    /// `redis.error_reply(text)` gives a text without a code the code ERR. So the begin of the
    /// text has to be known.
    pub(super) fn error_reply(
        &mut self,
        text: &'a Expression,
        to: Option<Register>,
    ) -> Lowered<Operand> {
        let is_text = match constant(text, &self.bindings) {
            Some(literal) => matches!(literal, Operand::Text(_)),
            None => true,
        };
        let mut parts = self.parts(text)?;
        if !is_text || !with_code(&mut parts) {
            return Err(Unsupported::left(
                text.line,
                "an error of which the code is not known",
            ));
        }
        let text = match <[Operand; 1]>::try_from(parts) {
            Ok([text]) => text,
            Err(parts) => self.compute(None, |to| Operation::Concatenate(to, parts)),
        };
        Ok(self.compute(to, |to| Operation::Error(to, text)))
    }
}

/// Makes of the parts of a text those of the error's; false: that depends on parts that are
/// not known.
fn with_code(parts: &mut [Operand]) -> bool {
    let has_space = |part: &Operand| matches!(part, Operand::Text(text) if text.contains(&b' '));
    let is_known = parts.len() == 1;
    let any_space = parts.iter().any(has_space);
    let Some(Operand::Text(first)) = parts.first_mut() else {
        return false;
    };
    let is_begin_known = is_known || !first.is_empty();
    if first.starts_with(b"-") {
        first.remove(0);
    }
    if any_space {
        return is_begin_known;
    }
    if is_known {
        first.splice(0..0, *b"ERR ");
    }
    is_known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Operand {
        Operand::Text(text.into())
    }

    #[test]
    fn codes_of_errors() {
        for (given, made) in [
            ("-BAD thing", "BAD thing"),
            ("BAD thing", "BAD thing"),
            ("bad", "ERR bad"),
            ("-bad", "ERR bad"),
            ("--bad", "ERR -bad"),
            ("--BAD thing", "-BAD thing"),
            ("", "ERR "),
            ("-", "ERR "),
        ] {
            let mut parts = [text(given)];
            assert!(with_code(&mut parts));
            assert_eq!(parts, [text(made)]);
        }
    }

    #[test]
    fn parts_that_are_not_known() {
        let mut parts = [text("ERR no "), Operand::Nil];
        assert!(with_code(&mut parts));
        let mut parts = [text("-"), Operand::Nil, text(" ")];
        assert!(with_code(&mut parts));
        assert_eq!(parts, [text(""), Operand::Nil, text(" ")]);
        assert!(!with_code(&mut [text("no"), Operand::Nil]));
        assert!(!with_code(&mut [text("-no"), Operand::Nil]));
        assert!(!with_code(&mut [text(""), Operand::Nil, text(" ")]));
        assert!(!with_code(&mut [Operand::Nil, text(" ")]));
    }
}
