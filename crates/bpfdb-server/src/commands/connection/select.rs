//! SELECT.

use bpfdb::Database;

use super::super::arguments::number;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "select",
    summary: "Chooses a database",
    since: "1.0.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 2,
    arguments: "index:integer",
    flags: &[Flag::Loading, Flag::Stale, Flag::Fast],
    categories: &[Category::Connection],
    differences: "Keys of other databases than the first have at most 504 bytes.",
    run,
    ..Command::BASE
};

const OUT_OF_RANGE: &str = "ERR DB index is out of range";

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let index = index(&arguments[0])?;
    let is_chosen = usize::try_from(index).is_ok_and(|number| context.select(number));
    if !is_chosen {
        return Err(OUT_OF_RANGE.into());
    }
    context.replies.ok();
    Ok(())
}

/// The number of a database that there is, and the engine's database of that number.
pub(crate) fn database(context: &Context<'_>, word: &[u8]) -> Result<(usize, Database), Failure> {
    let number = usize::try_from(index(word)?).ok();
    number
        .and_then(|number| Some((number, context.instance.databases.get(number)?)))
        .ok_or_else(|| OUT_OF_RANGE.into())
}

fn index(word: &[u8]) -> Result<i32, Failure> {
    i32::try_from(number(word)?).map_err(|_| {
        "ERR value is out of range, value must between -2147483648 and 2147483647".into()
    })
}
