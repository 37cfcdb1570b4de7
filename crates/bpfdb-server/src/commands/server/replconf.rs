//! REPLCONF: there is no replication.

use super::super::prelude::*;
use super::replicaof::unsupported;

pub(crate) static COMMAND: Command = Command {
    name: "replconf",
    summary: "Would describe a replica",
    since: "3.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: -1,
    flags: &[
        Flag::Admin,
        Flag::NoScript,
        Flag::Loading,
        Flag::Stale,
        Flag::AllowBusy,
    ],
    differences: "There is no replication: an error.",
    run: unsupported,
    ..Command::BASE
};
