//! ROLLBACK.

use super::super::prelude::*;
use super::commit::end;

pub(crate) static COMMAND: Command = Command {
    name: "rollback",
    summary: "Undoes everything that was done since BEGIN",
    since: "0.1.0",
    group: Group::Transactions,
    complexity: "O(N) where N is the number of keys that were read or written",
    arity: 1,
    flags: &[Flag::NoScript, Flag::NoMulti],
    categories: &[Category::Transaction],
    differences: "Redis has no such command.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let ended = context.session.rollback();
    end(context, ended)
}
