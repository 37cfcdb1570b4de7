//! SAVE: a checkpoint, and the reply when it counts.

use std::time::Duration;

use super::super::job::{Job, Progress};
use super::super::prelude::*;
use crate::instance::log::NO_LOG;

/// Between two looks at how far it is.
const PAUSE: Duration = Duration::from_millis(5);

pub(crate) static COMMAND: Command = Command {
    name: "save",
    summary: "Makes a checkpoint, and waits for it",
    since: "1.0.0",
    group: Group::Server,
    complexity: "O(N) where N is the number of keys",
    arity: 1,
    flags: &[
        Flag::Admin,
        Flag::NoScript,
        Flag::NoAsyncLoading,
        Flag::NoMulti,
    ],
    differences: "Makes a checkpoint in the data directory, not an RDB file (for that there is bpfdb dump). Others are served meanwhile.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let attempt = context.instance.log.begin_checkpoint()?;
    context.go_on_with(Saving { attempt });
    Ok(())
}

#[derive(Debug)]
struct Saving {
    /// Its number.
    attempt: u64,
}

impl Job for Saving {
    fn step(&mut self, context: &mut Context<'_>, _: &[Vec<u8>]) -> Result<Progress, Failure> {
        let durability = context.instance.log.durability().ok_or(NO_LOG)?;
        let status = durability.checkpoint_status();
        // What another attempt came to since says nothing of this one, unless it made a checkpoint.
        if status.last_made >= self.attempt {
            context.replies.ok();
            return Ok(Progress::Done);
        }
        if status.attempts < self.attempt {
            context.rest(PAUSE);
            return Ok(Progress::More);
        }
        let why = status.failure.unwrap_or_default();
        Err(format!("ERR the checkpoint failed: {why}").into())
    }
}
