//! MEMORY USAGE: the cell of the record, and the slots of what does not fit into it.

use bpfdb::{ValueType, slot_size};
use bpfdb_values::big::Head;
use bpfdb_values::run::NARROW_ENTRY;

use super::super::super::arguments::{is, number, syntax_error};
use super::super::super::collection::large_head;
use super::super::super::prelude::*;

const CELL: usize = bpfdb::abi::BPFDB_CELL_SIZE as usize;
const INLINE_MAX: usize = bpfdb::abi::BPFDB_INLINE_MAX as usize;

pub(crate) static COMMAND: Command = Command {
    name: "memory|usage",
    summary: "Bytes that a key and its value take",
    since: "4.0.0",
    group: Group::Server,
    complexity: "O(length of the value)",
    arity: -3,
    arguments: "key:key, [SAMPLES count:integer]",
    flags: &[Flag::Readonly],
    keys: &[Keys::at(2, &[KeyFlag::ReadOnly])],
    differences: "Exact for the newest version, but of a collection of many elements an estimate; older ones that snapshots need are not counted.",
    misses: Misses::None,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, mut options) = (&arguments[0], &arguments[1..]);
    while let [option, rest @ ..] = options {
        options = match rest {
            [count, rest @ ..] if is(option, "samples") => {
                if number(count)? < 0 {
                    return Err(syntax_error());
                }
                rest
            }
            _ => return Err(syntax_error()),
        };
    }
    match context
        .session
        .tracked(false, |session| session.head(key))?
    {
        Some(head) => {
            let mut value = head.len as usize;
            if head.expires_at.is_some() || head.value_type != ValueType::STRING {
                // Its time lies in the cell, the value never; nor does one that is no string.
                value = value.max(INLINE_MAX + 1);
            }
            let pages = large_head(&head)?.map_or(0, |large| pages_of(&large));
            let bytes = CELL + slot_size(key.len()) + slot_size(value) + pages;
            context.replies.integer(bytes as i64);
        }
        None => context.replies.null(),
    }
    Ok(())
}

/// Bytes of the pages of a large collection, about: slots are an eighth longer than what is in them.
fn pages_of(large: &Head) -> usize {
    let groups = large.stream.map_or(0, |stream| stream.groups_len);
    let entries = large.bytes + large.elements * NARROW_ENTRY as u64 + u64::from(groups);
    let pages = entries / PAGE + 1;
    let bytes = entries + entries / 8 + pages * (CELL + slot_size(PAGE_KEY)) as u64;
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Bytes of a page on average, and of its key.
const PAGE: u64 = 2048;
const PAGE_KEY: usize = 24;
