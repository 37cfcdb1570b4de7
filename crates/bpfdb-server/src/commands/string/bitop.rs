//! BITOP.

use super::super::arguments::{is, syntax_error};
use super::super::atomic::{Kind, atomically};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "bitop",
    summary: "Combines values bit by bit and keeps the result under another key",
    since: "2.6.0",
    group: Group::Bitmap,
    complexity: "O(sum of the lengths)",
    arity: -4,
    arguments: "operation, destkey:key, key:key...",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::Bitmap],
    keys: &[
        Keys::at(2, &[KeyFlag::Overwrite, KeyFlag::Update]),
        Keys::at(3, &[KeyFlag::ReadOnly, KeyFlag::Access]).last(-1),
    ],
    events: Events::Stored("set"),
    run,
    ..Command::BASE
};

type Join = fn(u8, u8) -> u8;

#[derive(Clone, Copy)]
enum Operation {
    Join(Join),
    Not,
}

impl Operation {
    fn parse(word: &[u8]) -> Result<Self, Failure> {
        let joins: [(&str, Join); 3] = [
            ("and", |a, b| a & b),
            ("or", |a, b| a | b),
            ("xor", |a, b| a ^ b),
        ];
        if is(word, "not") {
            return Ok(Self::Not);
        }
        joins
            .into_iter()
            .find(|(name, _)| is(word, name))
            .map(|(_, join)| Self::Join(join))
            .ok_or_else(syntax_error)
    }

    /// With the first value, or with the result so far and the next value: one
    /// after the other, a key may be named any number of times. Shorter values
    /// are thought to go on with zeros.
    fn apply(self, before: Option<Vec<u8>>, mut value: Vec<u8>) -> Vec<u8> {
        match (self, before) {
            (Self::Not, _) => value.iter().map(|byte| !byte).collect(),
            (Self::Join(_), None) => value,
            (Self::Join(join), Some(mut all)) => {
                let len = all.len().max(value.len());
                all.resize(len, 0);
                value.resize(len, 0);
                let pairs = all.iter().zip(&value);
                pairs.map(|(&a, &b)| join(a, b)).collect()
            }
        }
    }
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let operation = Operation::parse(&arguments[0])?;
    let (target, sources) = (&arguments[1], &arguments[2..]);
    if matches!(operation, Operation::Not) && sources.len() != 1 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let len = atomically(context.session, Kind::Write, |session| {
        let mut result = None;
        for key in sources {
            let value = session.get(key)?.unwrap_or_default();
            result = Some(operation.apply(result, value));
        }
        let result = result.unwrap_or_default();
        if result.is_empty() {
            session.delete(target)?;
        } else {
            session.set(target, &result)?;
        }
        Ok(result.len())
    })?;
    context.replies.integer(len as i64);
    Ok(())
}
