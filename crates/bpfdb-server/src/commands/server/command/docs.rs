//! COMMAND DOCS.

use super::super::super::prelude::*;
use super::super::super::syntax;
use super::super::super::table::{COMMANDS, by_full_name};
use crate::protocol::reply::Replies;

pub(crate) static COMMAND: Command = Command {
    name: "command|docs",
    summary: "Describes commands for people",
    since: "7.0.0",
    group: Group::Server,
    complexity: "O(commands asked for)",
    arity: -2,
    arguments: "[command-name]...",
    flags: &[Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    tips: &["nondeterministic_output_order"],
    differences: "Without histories.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, names: &[Vec<u8>]) -> Outcome {
    let asked: Vec<&Command> = if names.is_empty() {
        COMMANDS.clone()
    } else {
        names.iter().filter_map(|name| by_full_name(name)).collect()
    };
    super::check(asked.len())?;
    all(context.replies, &asked);
    Ok(())
}

fn all(replies: &mut Replies, commands: &[&Command]) {
    replies.map(commands.len());
    for command in commands {
        replies.bulk(command.name);
        document(replies, command);
    }
}

fn document(replies: &mut Replies, command: &Command) {
    let fields = [
        ("summary", command.summary),
        ("since", command.since),
        ("group", command.group.name()),
        ("complexity", command.complexity),
    ];
    let deprecated = command.deprecated.as_ref();
    let has_subcommands = !command.subcommands.is_empty();
    let arguments = syntax::parse(command.arguments).unwrap_or_default();
    let more = 3 * usize::from(deprecated.is_some())
        + usize::from(!arguments.is_empty())
        + usize::from(has_subcommands);

    replies.map(fields.len() + more);
    for (name, text) in fields {
        replies.bulk(name);
        replies.bulk(text);
    }
    if let Some(deprecated) = deprecated {
        replies.bulk("doc_flags");
        replies.set(1);
        replies.simple("deprecated");
        replies.bulk("deprecated_since");
        replies.bulk(deprecated.since);
        replies.bulk("replaced_by");
        replies.bulk(deprecated.replaced_by);
    }
    if !arguments.is_empty() {
        replies.bulk("arguments");
        syntax::list(replies, &arguments, command.keys.len());
    }
    if has_subcommands {
        replies.bulk("subcommands");
        all(replies, command.subcommands);
    }
}
