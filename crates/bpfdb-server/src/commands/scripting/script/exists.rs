//! SCRIPT EXISTS.

use super::super::super::prelude::*;
use bpfdb_lua::Sha1;

pub(crate) static COMMAND: Command = Command {
    name: "script|exists",
    summary: "Says which of these scripts the server knows",
    since: "2.6.0",
    group: Group::Scripting,
    complexity: "O(scripts)",
    arity: -3,
    arguments: "sha1...",
    flags: &[Flag::NoScript],
    categories: &[Category::Scripting],
    tips: &[
        "request_policy:all_shards",
        "response_policy:agg_logical_and",
    ],
    differences: "",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, names: &[Vec<u8>]) -> Outcome {
    context.replies.array(names.len());
    for name in names {
        let known = Sha1::parse(name).and_then(|name| context.instance.scripts.find(name));
        context.replies.integer(known.is_some().into());
    }
    Ok(())
}
