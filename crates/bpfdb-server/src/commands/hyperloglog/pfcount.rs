//! PFCOUNT.

use bpfdb::{Session, abi};
use bpfdb_values::hyperloglog::{self, HyperLogLog, Registers};

use super::super::atomic::{Kind, atomically, is_open};
use super::super::prelude::*;
use super::super::update::change;

/// Of Redis.
const NOTES: &str =
    "RW because it may change the internal representation of the key, and propagate to replicas";

pub(crate) static COMMAND: Command = Command {
    name: "pfcount",
    summary: "Estimates how many elements HyperLogLogs have",
    since: "2.8.9",
    group: Group::HyperLogLog,
    complexity: "O(keys)",
    arity: -2,
    arguments: "key:key...",
    flags: &[Flag::Readonly],
    categories: &[Category::HyperLogLog],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Access])
        .last(-1)
        .notes(NOTES)],
    differences: "EVAL_RO may call it; in transactions that only read the estimate is not kept in the value.",
    events: Events::None,
    misses: Misses::All,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, keys: &[Vec<u8>]) -> Outcome {
    let count = match keys {
        [key] => of_one(context, key)?,
        keys => of_several(context.session, keys)?,
    };
    context.replies.integer(count as i64);
    Ok(())
}

/// As in Redis, the estimate becomes a part of the value. Whether that is possible makes no difference to
/// the reply.
fn of_one(context: &mut Context<'_>, key: &[u8]) -> Result<u64, Failure> {
    let is_writing = context.session.state() == abi::BPFDB_TXN_WRITE;
    let may_write = !context.instance.refuses_writes();
    let session = &mut *context.session;
    // A lock that is shared with others does not become an exclusive one.
    if is_writing && may_write {
        return count_and_keep(session, key);
    }
    let value = session.get(key)?;
    let Some(value) = value else {
        return Ok(0);
    };
    let count = hyperloglog::count(&value)?;
    if may_write && !is_open(session) && hyperloglog::cached(&value)?.is_none() {
        return Ok(count_and_keep(session, key).unwrap_or(count));
    }
    Ok(count)
}

fn count_and_keep(session: &mut Session, key: &[u8]) -> Result<u64, Failure> {
    change(session, key, |old| {
        let Some(old) = old else {
            return Ok((None, 0));
        };
        if let Some(count) = hyperloglog::cached(&old)? {
            return Ok((None, count));
        }
        let mut all = HyperLogLog::read(old)?;
        let count = all.keep_count()?;
        Ok((Some(all.into_bytes()), count))
    })
}

fn of_several(session: &mut Session, keys: &[Vec<u8>]) -> Result<u64, Failure> {
    atomically(session, Kind::Read, |session| {
        let mut registers = Registers::default();
        for key in keys {
            if let Some(value) = session.get(key)? {
                registers.add(&value)?;
            }
        }
        Ok(registers.count())
    })
}
