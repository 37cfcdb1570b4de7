//! BITCOUNT.

use bpfdb::abi;

use super::super::arguments::syntax_error;
use super::super::prelude::*;
use super::bits::{self, Unit};

pub(crate) static COMMAND: Command = Command {
    name: "bitcount",
    summary: "Counts the bits that are set, in all of a value or in a range",
    since: "2.6.0",
    group: Group::Bitmap,
    complexity: "O(length of the range)",
    arity: -2,
    arguments: "key:key, [index{start:integer, end:integer, [index_unit(BYTE|BIT)@7.0.0]}]",
    flags: &[Flag::Readonly],
    categories: &[Category::Bitmap],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    // As in Redis: without a value the rest is not checked.
    let Some(value) = context.session.get(&arguments[0])? else {
        context.replies.integer(0);
        return Ok(());
    };
    let range = match &arguments[1..] {
        [] => bits::range(0, -1, Unit::Byte, value.len()),
        [start, end, unit @ ..] if unit.len() <= 1 => {
            let (start, end) = bits::positions(start, end)?;
            if start < 0 && end < 0 && start > end {
                0..0
            } else {
                let unit = unit
                    .first()
                    .map_or(Ok(Unit::Byte), |word| Unit::parse(word))?;
                bits::range(start, end, unit, value.len())
            }
        }
        _ => return Err(syntax_error()),
    };
    let many = range.end - range.start > 8 * u64::from(abi::BPFDB_BITCOUNT_MAX);
    context.set_needs_daemon(many || arguments.len() > 3);
    context.replies.integer(bits::count(&value, range) as i64);
    Ok(())
}
