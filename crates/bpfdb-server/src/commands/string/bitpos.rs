//! BITPOS.

use super::super::arguments::{number, syntax_error};
use super::super::prelude::*;
use super::bits::{self, Unit};

pub(crate) static COMMAND: Command = Command {
    name: "bitpos",
    summary: "Finds the first bit that is set, or that is not",
    since: "2.8.7",
    group: Group::Bitmap,
    complexity: "O(length of the range)",
    arity: -3,
    arguments: "key:key, bit:integer, [index{start:integer, [end_index{end:integer, [index_unit(BYTE|BIT)@7.0.0]}]}]",
    flags: &[Flag::Readonly],
    categories: &[Category::Bitmap],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let set = match number(&arguments[1])? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let Some(value) = context.session.get(&arguments[0])? else {
        context.replies.integer(if set { -1 } else { 0 });
        return Ok(());
    };
    let position = position(&value, set, &arguments[2..])?;
    context
        .replies
        .integer(position.map_or(-1, |bit| bit as i64));
    Ok(())
}

fn position(value: &[u8], set: bool, range: &[Vec<u8>]) -> Result<Option<u64>, Failure> {
    let range = match range {
        [] => bits::range(0, -1, Unit::Byte, value.len()),
        [start] => bits::range(number(start)?, -1, Unit::Byte, value.len()),
        [start, end, unit @ ..] if unit.len() <= 1 => {
            let start = number(start)?;
            let unit = unit
                .first()
                .map_or(Ok(Unit::Byte), |word| Unit::parse(word))?;
            let range = bits::range(start, number(end)?, unit, value.len());
            return Ok(bits::find(value, range, set));
        }
        _ => return Err(syntax_error()),
    };
    if range.is_empty() {
        return Ok(None);
    }
    let found = bits::find(value, range.clone(), set);
    // Without an end, zeros are thought to follow the value.
    Ok(found.or((!set).then_some(range.end)))
}
