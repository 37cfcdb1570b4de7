//! SYNC: there is no replication.

use super::super::prelude::*;
use super::replicaof::unsupported;

pub(crate) static COMMAND: Command = Command {
    name: "sync",
    summary: "Would send all data to a replica",
    since: "1.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 1,
    flags: &[
        Flag::Admin,
        Flag::NoScript,
        Flag::NoAsyncLoading,
        Flag::NoMulti,
    ],
    differences: "There is no replication: an error.",
    run: unsupported,
    ..Command::BASE
};
