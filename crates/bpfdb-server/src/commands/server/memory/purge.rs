//! MEMORY PURGE: what snapshots no longer need, and empty pages.

use std::time::Duration;

use super::super::super::prelude::*;

/// How often it looks whether it is done.
const PERIOD: Duration = Duration::from_millis(2);

pub(crate) static COMMAND: Command = Command {
    name: "memory|purge",
    summary: "Collects what is not needed any more",
    since: "4.0.0",
    group: Group::Server,
    complexity: "O(pages)",
    arity: 2,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    differences: "The memory is used again; it does not go back to the machine.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let number = context.engine.sweep_later()?;
    context.go_on_with(Purge { number });
    Ok(())
}

/// The memory thread is at it.
#[derive(Debug)]
struct Purge {
    number: u64,
}

impl Job for Purge {
    fn step(&mut self, context: &mut Context<'_>, _: &[Vec<u8>]) -> Result<Progress, Failure> {
        // Inside EXEC others would wait for it.
        if context.engine.was_swept(self.number) || context.at_once {
            context.replies.ok();
            return Ok(Progress::Done);
        }
        context.rest(PERIOD);
        Ok(Progress::More)
    }
}
