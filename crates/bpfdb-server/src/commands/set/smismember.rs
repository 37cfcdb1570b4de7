//! SMISMEMBER.

use bpfdb::ValueType;
use bpfdb_values::Set;
use bpfdb_values::run::{Malformed, Run};

use super::super::collection::look;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "smismember",
    summary: "Tells of each of some members whether a set has it",
    since: "6.2.0",
    group: Group::Set,
    complexity: "O(length of the set and members)",
    arity: -3,
    arguments: "key:key, member...",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Set],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

/// More members than these are looked for in a set in memory, which has an index.
const FEW: usize = 4;

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, members) = (&arguments[0], &arguments[1..]);
    let found = look(context.session, key, ValueType::SET, |run| {
        Ok(find(&run, members)?)
    })?;
    context.replies.array(members.len());
    for found in found.unwrap_or_else(|| vec![false; members.len()]) {
        context.replies.integer(found.into());
    }
    Ok(())
}

fn find(run: &Run<'_>, members: &[Vec<u8>]) -> Result<Vec<bool>, Malformed> {
    if members.len() <= FEW {
        let found = members.iter().map(|member| run.find(member));
        return found.map(|found| Ok(found?.is_some())).collect();
    }
    let mut set = Set::of_run(run)?;
    Ok(members.iter().map(|member| set.contains(member)).collect())
}
