//! CLIENT SETINFO: which library the client is made with.

use super::super::super::arguments::is;
use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client|setinfo",
    summary: "Says which library the client is made with",
    since: "7.2.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 4,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (attribute, value) = (&arguments[0], &arguments[1]);
    let connection = &mut *context.connection;
    let place = if is(attribute, "lib-name") {
        &mut connection.library_name
    } else if is(attribute, "lib-ver") {
        &mut connection.library_version
    } else {
        let text = b"ERR Unrecognized option '";
        return Err(Failure::Text([&text[..], attribute, b"'"].concat()));
    };
    super::check_word(
        value,
        &String::from_utf8_lossy(attribute).to_ascii_lowercase(),
    )?;
    place.clone_from(value);
    context.replies.ok();
    Ok(())
}
