//! PFMERGE.

use bpfdb_values::hyperloglog::{HyperLogLog, Registers};

use super::super::atomic::{Kind, atomically};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "pfmerge",
    summary: "Merges HyperLogLogs into one",
    since: "2.8.9",
    group: Group::HyperLogLog,
    complexity: "O(keys)",
    arity: -2,
    arguments: "destkey:key, sourcekey:key...",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::HyperLogLog],
    keys: &[
        Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Insert]),
        Keys::at(2, &[KeyFlag::ReadOnly, KeyFlag::Access]).last(-1),
    ],
    events: Events::Named("pfadd"),
    misses: Misses::All,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, keys: &[Vec<u8>]) -> Outcome {
    let (target, sources) = (&keys[0], &keys[1..]);
    atomically(context.session, Kind::Write, |session| {
        let old = session.entry_for_update(target)?;
        let expires_at = old.as_ref().and_then(|old| old.expires_at);
        let mut registers = Registers::default();
        if let Some(old) = &old {
            registers.add(&old.value)?;
        }
        for source in sources.iter().filter(|&source| source != target) {
            if let Some(value) = session.get(source)? {
                registers.add(&value)?;
            }
        }
        let old = old.map(|old| HyperLogLog::read(old.value)).transpose()?;
        let mut merged = old.unwrap_or_default();
        merged.merge(&registers)?;
        merged.set_out_of_date();
        Ok(session.set_entry(target, &merged.into_bytes(), expires_at)?)
    })?;
    context.replies.ok();
    Ok(())
}
