//! COMMAND LIST.

use super::super::super::arguments::{is, syntax_error};
use super::super::super::prelude::*;
use super::super::super::table::COMMANDS;
use crate::values::glob;

pub(crate) static COMMAND: Command = Command {
    name: "command|list",
    summary: "Names the commands, all or some",
    since: "7.0.0",
    group: Group::Server,
    complexity: "O(commands)",
    arity: -2,
    arguments: "[FILTERBY filterby(MODULE module-name|ACLCAT category|PATTERN pattern:pattern)]",
    flags: &[Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    tips: &["nondeterministic_output_order"],
    differences: "There are no modules.",
    run,
    ..Command::BASE
};

type Filter<'a> = Box<dyn Fn(&Command) -> bool + 'a>;

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let wanted: Filter<'_> = match arguments {
        [] => Box::new(|_| true),
        [word, kind, what] if is(word, "filterby") => filter(kind, what)?,
        _ => return Err(syntax_error()),
    };
    let with_subcommands = COMMANDS
        .iter()
        .flat_map(|command| std::iter::once(command).chain(command.subcommands));
    let names: Vec<&str> = with_subcommands
        .filter(|command| wanted(command))
        .map(|command| command.name)
        .collect();
    context.replies.array(names.len());
    for name in names {
        context.replies.bulk(name);
    }
    Ok(())
}

fn filter<'a>(kind: &[u8], what: &'a [u8]) -> Result<Filter<'a>, Failure> {
    if is(kind, "module") {
        return Ok(Box::new(|_| false));
    }
    if is(kind, "aclcat") {
        let category = Category::ALL
            .iter()
            .copied()
            .find(|category| is(what, category.name()));
        return Ok(Box::new(move |command| {
            category.is_some_and(|category| command.is_in(category))
        }));
    }
    if is(kind, "pattern") {
        return Ok(Box::new(|command| {
            glob::matches_any_case(what, command.name.as_bytes())
        }));
    }
    Err(syntax_error())
}
