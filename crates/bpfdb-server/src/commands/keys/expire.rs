//! EXPIRE; and what it has in common with PEXPIRE, EXPIREAT and PEXPIREAT.

use super::super::arguments::number;
use super::super::expiry::Form;
use super::super::prelude::*;
use super::super::update::{Time, retime};

pub(crate) static COMMAND: Command = Command {
    name: "expire",
    summary: "Lets a value expire after some seconds",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(length of the value)",
    arity: -3,
    arguments: "key:key, seconds:integer, [condition(NX|XX|GT|LT)@7.0.0]",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Keyspace],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Update])],
    differences: "With options the daemon answers it.",
    batching: Batching::Reads,
    events: Events::Stored("expire"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    expire(context, arguments, Form::EX, COMMAND.name)
}

/// When the time is to be changed.
#[derive(Clone, Copy, Debug, Default)]
struct Condition {
    if_none: bool,
    if_some: bool,
    if_later: bool,
    if_earlier: bool,
}

impl Condition {
    fn parse(words: &[Vec<u8>]) -> Result<Self, Failure> {
        let mut condition = Self::default();
        for word in words {
            match &*word.to_ascii_lowercase() {
                b"nx" => condition.if_none = true,
                b"xx" => condition.if_some = true,
                b"gt" => condition.if_later = true,
                b"lt" => condition.if_earlier = true,
                _ => {
                    return Err(Failure::Text(
                        [b"ERR Unsupported option ", &**word].concat(),
                    ));
                }
            }
        }
        if condition.if_none && (condition.if_some || condition.if_later || condition.if_earlier) {
            return Err(
                "ERR NX and XX, GT or LT options at the same time are not compatible".into(),
            );
        }
        if condition.if_later && condition.if_earlier {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(condition)
    }

    /// A value that does not expire does so later than any other.
    fn allows(self, before: Option<u64>, new: i64) -> bool {
        let before = before.map(|before| before as i64);
        !(self.if_none && before.is_some()
            || self.if_some && before.is_none()
            || self.if_later && before.is_none_or(|before| new <= before)
            || self.if_earlier && before.is_some_and(|before| new >= before))
    }
}

pub(super) fn expire(
    context: &mut Context<'_>,
    arguments: &[Vec<u8>],
    form: Form,
    name: &str,
) -> Outcome {
    let key = &arguments[0];
    let condition = Condition::parse(&arguments[2..])?;
    if arguments.len() > 2 {
        context.set_needs_daemon(true);
    }
    let deadline = form.any_deadline(context, name, number(&arguments[1])?)?;
    let now = context.engine.now_ms();
    let done = retime(context.session, key, |old| {
        if !old.is_some_and(|old| condition.allows(old.expires_at, deadline)) {
            return Ok((Time::Stays, false));
        }
        let time = match u64::try_from(deadline) {
            Ok(deadline) if deadline > now => Time::Becomes(Some(deadline)),
            // Deleted, since that takes no memory.
            _ => Time::Over,
        };
        Ok((time, true))
    })?;
    context.replies.integer(done.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Condition;

    fn allows(options: &[&str], before: Option<u64>, new: i64) -> bool {
        let words: Vec<Vec<u8>> = options
            .iter()
            .map(|word| word.as_bytes().to_vec())
            .collect();
        Condition::parse(&words)
            .expect("compatible")
            .allows(before, new)
    }

    #[test]
    fn conditions() {
        assert!(allows(&[], None, 5) && allows(&[], Some(9), 5));
        assert!(allows(&["NX"], None, 5) && !allows(&["nx"], Some(9), 5));
        assert!(allows(&["XX"], Some(9), 5) && !allows(&["xx"], None, 5));
        assert!(allows(&["GT"], Some(4), 5) && !allows(&["gt"], Some(5), 5));
        assert!(!allows(&["GT"], None, 5) && allows(&["LT"], None, 5));
        assert!(allows(&["LT"], Some(6), 5) && !allows(&["lt"], Some(5), 5));
        assert!(!allows(&["XX", "LT"], None, 5));
    }
}
