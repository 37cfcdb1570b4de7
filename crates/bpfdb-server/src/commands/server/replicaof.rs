//! REPLICAOF.

use super::super::arguments::is;
use super::super::prelude::*;
use crate::values::integer;

pub(crate) static COMMAND: Command = Command {
    name: "replicaof",
    summary: "Would make the server a copy of another",
    since: "5.0.0",
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
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    replicate(context, arguments)
}

/// It is a master, and stays one.
pub(super) fn replicate(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    if is(&arguments[0], "no") && is(&arguments[1], "one") {
        context.replies.ok();
        return Ok(());
    }
    let port = integer::parse(&arguments[1]).and_then(|port| u16::try_from(port).ok());
    if port.is_none() {
        return Err("ERR Invalid master port".into());
    }
    unsupported(context, arguments)
}

pub(super) fn unsupported(_: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    Err("ERR replication is not supported".into())
}
