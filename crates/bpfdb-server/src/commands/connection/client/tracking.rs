//! CLIENT TRACKING: the server does not track reads, and replies so.

use super::super::super::arguments::{is, number, syntax_error};
use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client|tracking",
    summary: "Would notify the client of changes to what it has read",
    since: "6.0.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: -3,
    arguments: "status(ON|OFF), [REDIRECT client-id:integer], [PREFIX prefix]...+, [BCAST], [OPTIN], [OPTOUT], [NOLOOP]",
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    differences: "ON is refused.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    check_options(context, &arguments[1..])?;
    if is(&arguments[0], "off") {
        context.replies.ok();
        return Ok(());
    }
    if is(&arguments[0], "on") {
        return Err("ERR client side caching is not supported".into());
    }
    Err(syntax_error())
}

fn check_options(context: &Context<'_>, mut options: &[Vec<u8>]) -> Outcome {
    let mut redirected = false;
    while let [option, behind @ ..] = options {
        options = match behind {
            [id, behind @ ..] if is(option, "redirect") => {
                if redirected {
                    return Err("ERR A client can only redirect to a single other client".into());
                }
                check_client(context, number(id)?)?;
                redirected = true;
                behind
            }
            [_, behind @ ..] if is(option, "prefix") => behind,
            _ if MODES.iter().any(|mode| is(option, mode)) => behind,
            _ => return Err(syntax_error()),
        };
    }
    Ok(())
}

const MODES: [&str; 4] = ["bcast", "optin", "optout", "noloop"];

fn check_client(context: &Context<'_>, id: i64) -> Outcome {
    let others = context.others.iter().map(|other| other.info.id);
    let mut all = others.chain([context.connection.id]);
    if all.any(|known| u64::try_from(id) == Ok(known)) {
        return Ok(());
    }
    Err("ERR The client ID you want redirect to does not exist".into())
}
