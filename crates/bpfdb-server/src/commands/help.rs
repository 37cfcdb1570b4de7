//! The replies to HELP.

use super::definition::Command;
use crate::reply::Replies;

/// A line for each subcommand and one that explains it, between the first and
/// the last.
pub(super) fn help(replies: &mut Replies, command: &str, lines: &[&str]) {
    replies.array(lines.len() + 3);
    replies.simple(&format!(
        "{command} <subcommand> [<argument> ...], with these subcommands:"
    ));
    for line in lines.iter().chain(&["HELP", "    This text."]) {
        replies.simple(line);
    }
}

/// The same from the definitions of the subcommands, HELP among them.
pub(super) fn show(replies: &mut Replies, command: &Command) {
    let name = command.name.to_ascii_uppercase();
    replies.array(1 + 2 * command.subcommands.len());
    replies.simple(&format!(
        "{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    ));
    for subcommand in command.subcommands {
        replies.simple(&subcommand.last_name().to_ascii_uppercase());
        replies.simple(&format!("    {}.", subcommand.summary));
    }
}
