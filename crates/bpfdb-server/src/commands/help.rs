//! The replies to HELP.

use crate::reply::Replies;

/// Lines as Redis gives them, between its first and its last.
pub(super) fn help(replies: &mut Replies, command: &str, lines: &[&str]) {
    replies.array(lines.len() + 3);
    replies.simple(&format!(
        "{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    ));
    for line in lines.iter().chain(&["HELP", "    Prints this help."]) {
        replies.simple(line);
    }
}
