//! FUNCTION DELETE.

use super::super::super::prelude::*;
use super::super::find::view;
use super::CHANGES;
use super::change::{Change, change};

pub(crate) static COMMAND: Command = Command {
    name: "function|delete",
    summary: "Deletes a library with its functions",
    since: "7.0.0",
    group: Group::Scripting,
    complexity: "O(length of all libraries)",
    arity: 3,
    arguments: "library-name",
    flags: &[Flag::Write, Flag::NoScript],
    categories: &[Category::Scripting],
    tips: CHANGES,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    // Before functions are taken out of the kernel for it. What is true when the libraries are
    // written is asked once more.
    if !view(context)?.has(&arguments[0]) {
        return Err(not_found());
    }
    Change(delete).begin(context, arguments)
}

fn not_found() -> Failure {
    "ERR Library not found".into()
}

fn delete(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    change(context, |libraries| {
        if libraries.remove(&arguments[0]) {
            Ok(())
        } else {
            Err(not_found())
        }
    })?;
    context.replies.ok();
    Ok(())
}
