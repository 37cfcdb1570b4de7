//! WAIT.

use super::super::arguments::number;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "wait",
    summary: "Would wait until copies have what was written",
    since: "3.0.0",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 3,
    arguments: "numreplicas:integer, timeout:integer",
    flags: &[Flag::NoScript],
    categories: &[Category::Connection],
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    differences: "There are no replicas: 0, at once.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    number(&arguments[0])?;
    let timeout = crate::values::integer::parse(&arguments[1])
        .ok_or("ERR timeout is not an integer or out of range")?;
    if timeout < 0 {
        return Err("ERR timeout is negative".into());
    }
    context.replies.integer(0);
    Ok(())
}
