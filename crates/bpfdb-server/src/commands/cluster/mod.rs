//! Clusters, of which the server is never a part.

mod asking;
#[expect(
    clippy::module_inception,
    reason = "a file has the name of its command"
)]
mod cluster;
mod readonly;
mod readwrite;

use super::definition::Command;
use super::{Context, Outcome};

pub(super) static COMMANDS: &[&Command] = &[
    &asking::COMMAND,
    &cluster::COMMAND,
    &readonly::COMMAND,
    &readwrite::COMMAND,
];

fn disabled(_: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    Err("ERR This instance has cluster support disabled".into())
}
