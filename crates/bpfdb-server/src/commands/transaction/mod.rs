//! MULTI and EXEC as Redis has them, and BEGIN and COMMIT, which it has not.

mod attempts;
mod begin;
mod commit;
mod discard;
mod exec;
mod flush;
mod locks;
mod multi;
mod multi_state;
mod queue;
mod reserved;
mod rollback;
mod unwatch;
mod watch;
mod watched;

pub(super) use attempts::Attempts;
pub(crate) use multi_state::MultiState;
pub(crate) use queue::Queue;

use super::definition::Command;

pub(super) static COMMANDS: &[&Command] = &[
    &begin::COMMAND,
    &commit::COMMAND,
    &discard::COMMAND,
    &exec::COMMAND,
    &locks::COMMAND,
    &multi::COMMAND,
    &rollback::COMMAND,
    &unwatch::COMMAND,
    &watch::COMMAND,
];
