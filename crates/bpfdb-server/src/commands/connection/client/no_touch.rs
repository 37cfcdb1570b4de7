//! CLIENT NO-TOUCH: whether what the client does with keys counts as use, for the choice of those that are
//! evicted.

use super::super::super::arguments::on_or_off;
use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "client|no-touch",
    summary: "Says that commands of this client do not count as use of keys, but for TOUCH",
    since: "7.2.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: 3,
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let no_touch = on_or_off(&arguments[0])?;
    context.connection.no_touch = no_touch;
    context.session.set_untracked(no_touch);
    context.replies.ok();
    Ok(())
}
