//! FUNCTION DUMP.

use super::super::super::prelude::*;
use super::super::find::view;

pub(crate) static COMMAND: Command = Command {
    name: "function|dump",
    summary: "Writes all libraries in the form that FUNCTION RESTORE reads",
    since: "7.0.0",
    group: Group::Scripting,
    complexity: "O(length of all libraries)",
    arity: 2,
    flags: &[Flag::NoScript],
    categories: &[Category::Scripting],
    differences: "Texts are not compressed.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let libraries = view(context)?;
    context.replies.bulk(libraries.encode());
    Ok(())
}
