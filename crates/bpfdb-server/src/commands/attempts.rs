//! How often something is tried again, and what happens in between: all of it is here, and
//! docs/network.md shows it in one table beside the attempts of the kernel.

use std::time::Duration;

use bpfdb::{Status, abi};

use super::context::Context;

/// Attempts of a statement in a transaction of its own, at once one after the other, as many
/// as the kernel makes.
pub(super) const STATEMENT: u32 = abi::BPFDB_COMMAND_TRIES;
/// Attempts of a MULTI … EXEC from its beginning, with others served in between.
pub(super) const BLOCK: u32 = 16;
/// How often a MULTI … EXEC that is to be tried again looks for the end of CLIENT PAUSE.
pub(super) const PAUSED: Duration = Duration::from_millis(1);

/// How often a command is tried again that ended in this Error, and what it waits before.
/// None of these attempts holds up others: they are served meanwhile.
fn again(status: Status) -> Option<(u32, Duration)> {
    match status {
        // Memory is being added.
        Status::MemoryPending => Some((500, Duration::from_millis(1))),
        // Another processor holds a lock, or reads a snapshot, for a moment. If a client
        // does, it may do so for long, and this one is told.
        Status::Conflict | Status::VersionsFull => Some((5, Duration::from_micros(200))),
        _ => None,
    }
}

/// Counts the attempts of one command.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// Has the command rest a moment after an Error, while others are served; false if
    /// another attempt would not help.
    pub(crate) fn wait(&mut self, context: &mut Context<'_>, status: Status) -> bool {
        let Some((most, pause)) = again(status) else {
            return false;
        };
        self.attempts += 1;
        if self.attempts > most {
            return false;
        }
        if status == Status::MemoryPending {
            context.engine.ask_for_memory();
        }
        context.rest(pause);
        true
    }
}
