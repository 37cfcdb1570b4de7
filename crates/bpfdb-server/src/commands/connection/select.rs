//! SELECT: there is one database.

use super::super::arguments::number;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "select",
    summary: "Chooses a database, of which there is one",
    since: "1.0.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 2,
    arguments: "index:integer",
    flags: &[Flag::Loading, Flag::Stale, Flag::Fast],
    categories: &[Category::Connection],
    differences: "There is one database, 0.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    check_database(&arguments[0])?;
    context.replies.ok();
    Ok(())
}

/// There is database 0.
pub(crate) fn check_database(index: &[u8]) -> Outcome {
    let index = number(index)?;
    if i32::try_from(index).is_err() {
        return Err(
            "ERR value is out of range, value must between -2147483648 and 2147483647".into(),
        );
    }
    if index != 0 {
        return Err("ERR DB index is out of range".into());
    }
    Ok(())
}
