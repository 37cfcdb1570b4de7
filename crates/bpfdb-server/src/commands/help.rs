//! The replies to HELP.

use super::definition::Command;
use crate::protocol::reply::Replies;

/// From the definitions of the subcommands, HELP among them.
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
