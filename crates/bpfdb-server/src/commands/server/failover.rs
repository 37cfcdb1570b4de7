//! FAILOVER: there are no replicas.

use super::super::arguments::{is, number, syntax_error};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "failover",
    summary: "Would make a replica the master",
    since: "6.2.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: -1,
    arguments: "[TO target{host, port:integer, [FORCE]}], [ABORT], [TIMEOUT milliseconds:integer]",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Stale],
    differences: "There are no replicas: always an error.",
    run,
    ..Command::BASE
};

fn run(_: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    if let [word] = arguments
        && is(word, "abort")
    {
        return Err("ERR No failover in progress.".into());
    }
    check(arguments)?;
    Err("ERR FAILOVER requires connected replicas.".into())
}

fn check(mut words: &[Vec<u8>]) -> Outcome {
    while let Some((word, behind)) = words.split_first() {
        words = match behind {
            [milliseconds, behind @ ..] if is(word, "timeout") => {
                if number(milliseconds)? <= 0 {
                    return Err("ERR FAILOVER timeout must be greater than 0".into());
                }
                behind
            }
            [_, port, behind @ ..] if is(word, "to") => {
                number(port)?;
                behind
            }
            behind if is(word, "force") => behind,
            _ => return Err(syntax_error()),
        };
    }
    Ok(())
}
