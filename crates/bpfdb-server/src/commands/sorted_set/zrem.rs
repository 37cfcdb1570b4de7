//! ZREM.

use bpfdb::ValueType;
use bpfdb_values::sorted_set::Changes;

use super::super::collection::{Change, change};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "zrem",
    summary: "Removes members from a sorted set",
    since: "1.2.0",
    group: Group::SortedSet,
    complexity: "O(length of the sorted set)",
    arity: -3,
    arguments: "key:key, member...",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Delete])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, members) = (&arguments[0], &arguments[1..]);
    let removed = change(context.session, key, ValueType::SORTED_SET, |old| {
        let mut changes = Changes::new(old.as_deref(), members.len())?;
        let mut removed = 0;
        for member in members {
            removed += i64::from(changes.remove(member)?);
        }
        let change = if removed == 0 {
            Change::Nothing
        } else {
            changes.finish()?.into()
        };
        Ok((change, removed))
    })?;
    context.replies.integer(removed);
    Ok(())
}
