//! SLAVEOF.

use super::super::definition::Deprecated;
use super::super::prelude::*;
use super::replicaof::replicate;

pub(crate) static COMMAND: Command = Command {
    name: "slaveof",
    summary: "Would make the server a copy of another",
    since: "1.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 3,
    arguments: "args(host-port{host, port:integer}|no-one{NO, ONE})",
    flags: &[
        Flag::Admin,
        Flag::NoScript,
        Flag::Stale,
        Flag::NoAsyncLoading,
    ],
    differences: "NO ONE only.",
    deprecated: Some(Deprecated {
        since: "5.0.0",
        replaced_by: "`REPLICAOF`",
    }),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    replicate(context, arguments)
}
