//! Replies: what a script says to its client. What a command says to a script: `answer.rs`.
//!
//! Which value stands for which reply: <https://redis.io/docs/latest/develop/interact/programmability/lua-api/>

use mlua::{Table, Value};

use crate::number;
use crate::work::Work;

/// A reply, of any protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Nil,
    Integer(i64),
    Bulk(Vec<u8>),
    Status(Vec<u8>),
    /// With its code, without the line's end.
    Error(Vec<u8>),
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    Set(Vec<Reply>),
    Double(f64),
    Boolean(bool),
    /// An integer of any length, in digits.
    BigNumber(Vec<u8>),
    /// Text for people, with its format of three letters.
    Verbatim(Vec<u8>, Vec<u8>),
}

/// How deep replies may lie in each other: Lua's own stack has no more room in Redis.
pub(crate) const DEPTH_MAX: usize = 1000;

// ---- Lines -------------------------------------------------------------------------

/// A text as Redis takes it from C, of which a zero is the end.
pub(crate) fn until_zero(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| *byte == 0);
    &text[..end.unwrap_or(text.len())]
}

/// The error that `redis.error_reply` makes of a text: its first word is the code, or ERR if there
/// is no other word. One minus in front is left out, and ends of lines around the message.
pub(crate) fn error_text(text: &[u8]) -> Vec<u8> {
    let text = until_zero(text);
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let end = text.iter().rposition(|byte| !ends_line(byte));
    let text = &text[..end.map_or(0, |last| last + 1)];
    let (code, message) = match text.iter().position(|byte| *byte == b' ') {
        Some(space) => text.split_at(space + 1),
        None => (&b"ERR "[..], text),
    };
    let begin = message.iter().position(|byte| !ends_line(byte));
    let message = &message[begin.unwrap_or(message.len())..];
    [code, message].concat()
}

fn ends_line(byte: &u8) -> bool {
    b"\r\n".contains(byte)
}

// ---- From Lua ----------------------------------------------------------------------

/// What a script returned cannot be replied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// A table holds itself, or nearly.
    TooDeep,
    /// It has more bytes than it may. What stands in several places comes out as often.
    TooLong,
    /// The call was stopped meanwhile.
    Stopped,
}

/// Bytes that a part of a reply takes, at least.
const PART_BYTES: usize = size_of::<Reply>();
/// Fields that tell which kind of reply a table is: each is looked for.
const FIELDS: usize = 8;

/// Turns what a script returns into a reply.
pub(crate) struct FromLua {
    /// Did the script ask for RESP3? Then its booleans are some.
    pub(crate) resp3: bool,
    /// Bytes that the reply may still take.
    pub(crate) bytes_left: usize,
    pub(crate) work: Work,
}

impl FromLua {
    pub(crate) fn reply(&mut self, value: &Value) -> Result<Reply, Unfit> {
        self.at_depth(value, 0)
    }

    fn at_depth(&mut self, value: &Value, depth: usize) -> Result<Reply, Unfit> {
        if depth > DEPTH_MAX {
            return Err(Unfit::TooDeep);
        }
        self.take(PART_BYTES)?;
        self.count(1)?;
        Ok(match value {
            Value::String(text) => Reply::Bulk(self.copy(&text.as_bytes())?),
            Value::Integer(value) => Reply::Integer(*value),
            Value::Number(value) => Reply::Integer(number::truncate(*value)),
            Value::Boolean(value) if self.resp3 => Reply::Boolean(*value),
            Value::Boolean(true) => Reply::Integer(1),
            Value::Table(table) => self.table(table, depth)?,
            _ => Reply::Nil,
        })
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<Reply, Unfit> {
        self.count(FIELDS)?;
        let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
        if let Value::String(text) = field("err") {
            return Ok(Reply::Error(self.copy(until_zero(&text.as_bytes()))?));
        }
        if let Value::String(text) = field("ok") {
            return Ok(Reply::Status(self.copy(until_zero(&text.as_bytes()))?));
        }
        match field("double") {
            Value::Number(value) => return Ok(Reply::Double(value)),
            Value::Integer(value) => return Ok(Reply::Double(value as f64)),
            _ => {}
        }
        if let Value::String(digits) = field("big_number") {
            return Ok(Reply::BigNumber(self.copy(&digits.as_bytes())?));
        }
        if let Some(reply) = self.verbatim(&field("verbatim_string"))? {
            return Ok(reply);
        }
        if let Value::Table(map) = field("map") {
            let mut pairs = Vec::new();
            for pair in map.pairs::<Value, Value>() {
                let (key, value) = pair.map_err(|_| Unfit::TooLong)?;
                pairs.push((
                    self.at_depth(&key, depth + 1)?,
                    self.at_depth(&value, depth + 1)?,
                ));
            }
            return Ok(Reply::Map(pairs));
        }
        if let Value::Table(set) = field("set") {
            let mut all = Vec::new();
            for pair in set.pairs::<Value, Value>() {
                let (key, _) = pair.map_err(|_| Unfit::TooLong)?;
                all.push(self.at_depth(&key, depth + 1)?);
            }
            return Ok(Reply::Set(all));
        }
        self.array(table, depth)
    }

    /// `None`: it is no text with a format.
    fn verbatim(&mut self, value: &Value) -> Result<Option<Reply>, Unfit> {
        let Value::Table(verbatim) = value else {
            return Ok(None);
        };
        let part = |name: &str| match verbatim.raw_get(name) {
            Ok(Value::String(text)) => Some(text),
            _ => None,
        };
        let (Some(format), Some(text)) = (part("format"), part("string")) else {
            return Ok(None);
        };
        let mut format = self.copy(&format.as_bytes())?;
        format.resize(3, b' ');
        let text = self.copy(&text.as_bytes())?;
        Ok(Some(Reply::Verbatim(format, text)))
    }

    fn take(&mut self, bytes: usize) -> Result<(), Unfit> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(Unfit::TooLong)?;
        Ok(())
    }

    /// As so many pieces of work.
    fn count(&mut self, pieces: usize) -> Result<(), Unfit> {
        self.work.pieces(pieces, 0).map_err(|_| Unfit::Stopped)
    }

    fn copy(&mut self, text: &[u8]) -> Result<Vec<u8>, Unfit> {
        self.take(text.len())?;
        self.work.bytes(text.len()).map_err(|_| Unfit::Stopped)?;
        Ok(text.to_vec())
    }

    /// Up to the first place where nothing is.
    fn array(&mut self, table: &Table, depth: usize) -> Result<Reply, Unfit> {
        let mut all = Vec::new();
        loop {
            let value = table.raw_get(all.len() + 1).unwrap_or(Value::Nil);
            if value.is_nil() {
                return Ok(Reply::Array(all));
            }
            all.push(self.at_depth(&value, depth + 1)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use mlua::Lua;

    use super::*;

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.into())
    }

    fn returned(code: &str, resp3: bool) -> Result<Reply, Unfit> {
        let lua = Lua::new();
        let value: Value = lua.load(code).eval().expect("runs");
        let mut from = FromLua {
            resp3,
            bytes_left: 100 * PART_BYTES,
            work: Work::new(&Rc::default(), 0),
        };
        from.reply(&value)
    }

    #[test]
    fn what_a_script_returns() {
        let list = |all: Vec<Reply>| Ok(Reply::Array(all));
        assert_eq!(
            returned("return {1.9, -1.9, true, false, 'a', nil, 3}", false),
            list(vec![
                Reply::Integer(1),
                Reply::Integer(-1),
                Reply::Integer(1),
                Reply::Nil,
                bulk("a")
            ])
        );
        assert_eq!(returned("return false", true), Ok(Reply::Boolean(false)));
        assert_eq!(
            returned("return {err = '-MY error', ok = 'x'}", false),
            Ok(Reply::Error(b"-MY error".to_vec()))
        );
        assert_eq!(
            returned("return {err = 'MY\\000 error'}", false),
            Ok(Reply::Error(b"MY".to_vec()))
        );
        assert_eq!(
            returned("return {{ok = 'a\\000b'}, 'a\\000b'}", false),
            list(vec![Reply::Status(b"a".to_vec()), bulk("a\0b")])
        );
        assert_eq!(returned("return {ok = 1}", false), list(vec![]));
        assert_eq!(
            returned("return {double = 3}", false),
            Ok(Reply::Double(3.0))
        );
        assert_eq!(
            returned("return {map = {a = 1}}", false),
            Ok(Reply::Map(vec![(bulk("a"), Reply::Integer(1))]))
        );
        assert_eq!(returned("return function() end", false), Ok(Reply::Nil));
        assert_eq!(returned("return 0/0", false), Ok(Reply::Integer(i64::MIN)));
    }

    /// As Redis 7.0 replies.
    #[test]
    fn errors_that_are_made_of_texts() {
        for (given, made) in [
            ("x", "ERR x"),
            ("-x", "ERR x"),
            ("-x y", "x y"),
            ("--x y", "-x y"),
            ("", "ERR "),
            ("-", "ERR "),
            (" ", " "),
            ("- x", " x"),
            ("x ", "x "),
            ("a\0b c", "ERR a"),
            ("a b\0c", "a b"),
            ("\0a b", "ERR "),
            ("a\nb", "ERR a\nb"),
            ("a b\r\n", "a b"),
            ("a\r\n b", "a\r\n b"),
            ("-\nx", "ERR x"),
            ("\n\na b", "\n\na b"),
            ("a \n\nb\n c\n", "a b\n c"),
            (" \n", " "),
        ] {
            assert_eq!(error_text(given.as_bytes()), made.as_bytes(), "{given:?}");
        }
    }

    #[test]
    fn what_has_no_end_is_refused() {
        assert_eq!(
            returned("local t = {} t[1] = t return t", false),
            Err(Unfit::TooLong)
        );
        let lua = Lua::new();
        let value: Value = lua
            .load("local t = {} t[1] = t return t")
            .eval()
            .expect("runs");
        let mut from = FromLua {
            resp3: false,
            bytes_left: usize::MAX,
            work: Work::new(&Rc::default(), 0),
        };
        assert_eq!(from.reply(&value), Err(Unfit::TooDeep));
    }
}
