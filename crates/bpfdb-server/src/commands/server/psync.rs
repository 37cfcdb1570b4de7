//! PSYNC: there is no replication.

use super::super::prelude::*;
use super::replicaof::unsupported;

pub(crate) static COMMAND: Command = Command {
    name: "psync",
    summary: "Would send changes to a replica",
    since: "2.8.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: -3,
    arguments: "replicationid, offset:integer",
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
