//! MULTI and EXEC as Redis has them, and BEGIN and COMMIT, which it has not.

mod begin;
mod commit;
mod discard;
mod exec;
mod flush;
mod multi;
pub(super) mod queue;
mod rollback;
mod unwatch;
mod watch;

use super::definition::Command;

pub(super) static COMMANDS: &[&Command] = &[
    &begin::COMMAND,
    &commit::COMMAND,
    &discard::COMMAND,
    &exec::COMMAND,
    &multi::COMMAND,
    &rollback::COMMAND,
    &unwatch::COMMAND,
    &watch::COMMAND,
];
