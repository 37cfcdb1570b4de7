//! BITFIELD.

use super::super::prelude::*;
use super::super::update::{change, check_len};
use super::fields::Operation;

pub(crate) static COMMAND: Command = Command {
    name: "bitfield",
    summary: "Reads and writes integers of any number of bits",
    since: "3.2.0",
    group: Group::Bitmap,
    complexity: "O(length of the value)",
    arity: -2,
    arguments: "key:key, [operation(GET encoding_offset{encoding, offset:integer}|write{[OVERFLOW wrap_sat_fail(WRAP|SAT|FAIL)], write_operation(SET encoding_offset_value{encoding, offset:integer, value:integer}|INCRBY encoding_offset_increment{encoding, offset:integer, increment:integer})})]...",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::Bitmap],
    keys: &[Keys::at(
        1,
        &[
            KeyFlag::ReadWrite,
            KeyFlag::Access,
            KeyFlag::Update,
            KeyFlag::VariableFlags,
        ],
    )
    .notes("This command allows both access and modification of the key")
    .depending(flags)],
    events: Events::Named("setbit"),
    run,
    ..Command::BASE
};

fn flags(words: &[Vec<u8>]) -> KeyFlags {
    let operations = words.get(2..).unwrap_or_default();
    match Operation::parse_all(operations) {
        Ok(all) if !all.iter().any(Operation::writes) => &[KeyFlag::ReadOnly, KeyFlag::Access],
        _ => &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update],
    }
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, operations) = (&arguments[0], Operation::parse_all(&arguments[1..])?);
    let writing = operations.iter().filter(|operation| operation.writes());
    let Some(len) = writing.map(Operation::len).max() else {
        return super::bitfield_ro::read(context, key, &operations);
    };
    check_len(len)?;
    let results = change(context.session, key, |old| {
        let mut value = old.unwrap_or_default();
        // As in Redis: also for what is not written because it does not fit.
        value.resize(value.len().max(len as usize), 0);
        let results = operations
            .iter()
            .map(|operation| operation.apply(&mut value));
        let results: Vec<Option<i64>> = results.collect();
        Ok((Some(value), results))
    })?;
    context.replies.array(results.len());
    for result in results {
        match result {
            Some(number) => context.replies.integer(number),
            None => context.replies.null(),
        }
    }
    Ok(())
}
