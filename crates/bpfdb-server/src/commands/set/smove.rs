//! SMOVE.

use bpfdb::ValueType;
use bpfdb_values::Set;

use super::super::atomic::{Kind, atomically};
use super::super::collection::load_for_update;
use super::super::prelude::*;
use super::store;

pub(crate) static COMMAND: Command = Command {
    name: "smove",
    summary: "Moves a member from a set to another one",
    since: "1.0.0",
    group: Group::Set,
    complexity: "O(length of both sets)",
    arity: 4,
    arguments: "source:key, destination:key, member",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::Set],
    keys: &[
        Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Delete]),
        Keys::at(2, &[KeyFlag::ReadWrite, KeyFlag::Insert]),
    ],
    differences: "A set takes at most 512 MiB.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (from, to, member) = (&arguments[0], &arguments[1], &arguments[2]);
    let moved = atomically(context.session, Kind::Write, |session| {
        let Some(source) = load_for_update(session, from, ValueType::SET)? else {
            return Ok(false);
        };
        let mut rest = Set::read(&source.value)?;
        if from == to {
            return Ok(rest.contains(member));
        }
        let target = load_for_update(session, to, ValueType::SET)?;
        let bytes = target.as_ref().map(|target| &target.value[..]);
        let mut set = bytes.map_or(Ok(Set::default()), Set::read)?;
        if !rest.remove(member) {
            return Ok(false);
        }
        // First what may be refused.
        if set.add(member) {
            let expires_at = target.as_ref().and_then(|target| target.expires_at);
            store(session, to, &set, expires_at)?;
        }
        store(session, from, &rest, source.expires_at)?;
        Ok(true)
    })?;
    context.replies.integer(moved.into());
    Ok(())
}
