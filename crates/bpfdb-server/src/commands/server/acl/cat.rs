//! ACL CAT.

use super::super::super::arguments::is;
use super::super::super::prelude::*;
use super::super::super::table::{COMMANDS, wrong_subcommand_arity};
use crate::protocol::reply::Replies;

pub(crate) static COMMAND: Command = Command {
    name: "acl|cat",
    summary: "Lists categories of commands, or the commands of one",
    since: "6.0.0",
    group: Group::Server,
    complexity: "O(commands)",
    arity: -2,
    arguments: "[categoryname]",
    flags: &[Flag::NoScript, Flag::Loading, Flag::Stale],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match arguments {
        [] => categories(context.replies),
        [name] => commands(context.replies, name)?,
        _ => return Err(wrong_subcommand_arity(context, "ACL")),
    }
    Ok(())
}

fn categories(replies: &mut Replies) {
    replies.array(Category::ALL.len());
    for category in Category::ALL {
        replies.bulk(category.name());
    }
}

fn commands(replies: &mut Replies, name: &[u8]) -> Outcome {
    let mut all = Category::ALL.iter();
    let Some(&category) = all.find(|category| is(name, category.name())) else {
        let text = [b"ERR Unknown category '", name, b"'"].concat();
        return Err(Failure::Text(text));
    };
    let leaves = COMMANDS
        .iter()
        .flat_map(|&command| match command.subcommands {
            [] => vec![command],
            subcommands => subcommands.to_vec(),
        });
    let found: Vec<&Command> = leaves.filter(|command| command.is_in(category)).collect();
    replies.array(found.len());
    for command in found {
        replies.bulk(command.name);
    }
    Ok(())
}
