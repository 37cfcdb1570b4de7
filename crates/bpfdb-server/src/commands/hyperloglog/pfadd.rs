//! PFADD.

use bpfdb_values::hyperloglog::HyperLogLog;

use super::super::prelude::*;
use super::super::update::change;

pub(crate) static COMMAND: Command = Command {
    name: "pfadd",
    summary: "Adds elements to a HyperLogLog",
    since: "2.8.9",
    group: Group::HyperLogLog,
    complexity: "O(elements)",
    arity: -2,
    arguments: "key:key, [element]...",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::HyperLogLog],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Insert])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let is_changed = change(context.session, &arguments[0], |old| {
        let is_new = old.is_none();
        let mut all = old.map_or_else(|| Ok(HyperLogLog::default()), HyperLogLog::read)?;
        let mut is_changed = is_new;
        for element in &arguments[1..] {
            is_changed |= all.add(element)?;
        }
        if !is_changed {
            return Ok((None, false));
        }
        all.set_out_of_date();
        Ok((Some(all.into_bytes()), true))
    })?;
    context.replies.integer(is_changed.into());
    Ok(())
}
