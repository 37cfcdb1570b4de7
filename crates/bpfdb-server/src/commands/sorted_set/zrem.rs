//! ZREM.

use bpfdb::ValueType;
use bpfdb_values::sorted_set::Changes;

use super::super::collection::{Change, Large, change_either};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "zrem",
    summary: "Removes members from a sorted set",
    since: "1.2.0",
    group: Group::SortedSet,
    complexity: "O(members, each the log of the length)",
    arity: -3,
    arguments: "key:key, member...",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Delete])],
    batching: Batching::Changes,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, members) = (&arguments[0], &arguments[1..]);
    let small = |old: Option<Vec<u8>>| {
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
    };
    let large = |large: &mut Large<'_>| {
        let mut removed = 0;
        for member in members {
            removed += i64::from(large.remove_member(member)?);
        }
        Ok(removed)
    };
    let removed = change_either(context.session, key, ValueType::SORTED_SET, small, large)?;
    context.replies.integer(removed);
    Ok(())
}
