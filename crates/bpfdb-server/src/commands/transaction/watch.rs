//! WATCH; EXEC compares what it has noted.

use super::super::atomic::is_open;
use super::super::prelude::*;
use super::super::time_slice::TimeSlice;

pub(crate) static COMMAND: Command = Command {
    name: "watch",
    summary: "Notes keys: the next EXEC is void if one of them is written before",
    since: "2.2.0",
    group: Group::Transactions,
    complexity: "O(keys)",
    arity: -2,
    arguments: "key:key...",
    flags: &[
        Flag::NoScript,
        Flag::Loading,
        Flag::Stale,
        Flag::Fast,
        Flag::AllowBusy,
    ],
    categories: &[Category::Transaction],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly]).last(-1)],
    differences: "Refused inside BEGIN. For an absent key, EXEC may reply nil although it was not written: with a probability of 1 in 65,536 for each other key that is deleted or expires meanwhile. SET of an absent key with a time that is over changes nothing, so EXEC goes on.",
    queued: false,
    misses: Misses::None,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, keys: &[Vec<u8>]) -> Outcome {
    if context.multi.queue.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    if is_open(context.session) {
        return Err("ERR WATCH inside BEGIN is not allowed; COMMIT or ROLLBACK first".into());
    }
    let mut noting = Noting {
        next: 0,
        swaps: context.instance.databases.swaps(),
    };
    if noting.step(context, keys)? == Progress::More {
        context.go_on_with(noting);
    }
    Ok(())
}

/// The keys of a WATCH that are left to be noted.
#[derive(Debug)]
struct Noting {
    next: usize,
    /// How often databases had been exchanged when the command came.
    swaps: u64,
}

impl Job for Noting {
    fn step(&mut self, context: &mut Context<'_>, keys: &[Vec<u8>]) -> Result<Progress, Failure> {
        let slice = TimeSlice::begin();
        while let Some(key) = keys.get(self.next) {
            let watched = &mut context.multi.watched;
            watched.note(context.session, key, self.swaps)?;
            self.next += 1;
            if slice.is_over() {
                return Ok(Progress::More);
            }
        }
        context.replies.ok();
        Ok(Progress::Done)
    }
}
