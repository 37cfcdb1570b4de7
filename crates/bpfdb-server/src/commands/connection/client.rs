//! CLIENT: what a connection says of itself.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client",
    summary: "A container for client connection commands",
    since: "2.4.0",
    group: Group::Connection,
    complexity: "Depends on subcommand.",
    arity: -2,
    subcommands: &[&GETNAME, &ID, &SETINFO, &SETNAME],
    ..Command::BASE
};

pub(crate) static GETNAME: Command = Command {
    name: "client|getname",
    summary: "Get the current connection name",
    since: "2.6.9",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run: getname,
    ..Command::BASE
};

fn getname(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let name = &context.connection.name;
    context
        .replies
        .bulk_or_null((!name.is_empty()).then_some(name));
    Ok(())
}

pub(crate) static ID: Command = Command {
    name: "client|id",
    summary: "Returns the client ID for the current connection",
    since: "5.0.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run: id,
    ..Command::BASE
};

fn id(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.replies.integer(context.connection.id as i64);
    Ok(())
}

static SETINFO: Command = Command {
    name: "client|setinfo",
    summary: "Set client or connection specific info",
    since: "7.2.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 4,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run: setinfo,
    ..Command::BASE
};

fn setinfo(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    context.replies.ok();
    Ok(())
}

pub(crate) static SETNAME: Command = Command {
    name: "client|setname",
    summary: "Set the current connection name",
    since: "2.6.9",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 3,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run: setname,
    ..Command::BASE
};

fn setname(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    check_name(&arguments[0])?;
    context.connection.name.clone_from(&arguments[0]);
    context.replies.ok();
    Ok(())
}

/// What Redis takes as the name of a connection.
pub(super) fn check_name(name: &[u8]) -> Outcome {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(());
    }
    Err("ERR Client names cannot contain spaces, newlines or special characters.".into())
}
