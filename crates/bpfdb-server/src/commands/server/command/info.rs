//! COMMAND INFO: what clients must know of a command to call it.

use super::super::super::definition::OfOption;
use super::super::super::prelude::*;
use super::super::super::table::{COMMANDS, by_full_name};
use crate::protocol::reply::Replies;

pub(crate) static COMMAND: Command = Command {
    name: "command|info",
    summary: "Describes commands, in short",
    since: "2.8.13",
    group: Group::Server,
    complexity: "O(commands asked for)",
    arity: -2,
    arguments: "[command-name]...",
    flags: &[Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    tips: &["nondeterministic_output_order"],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, names: &[Vec<u8>]) -> Outcome {
    let replies = &mut *context.replies;
    if names.is_empty() {
        replies.array(COMMANDS.len());
        COMMANDS
            .iter()
            .for_each(|command| describe(replies, command));
        return Ok(());
    }
    super::check(names.len())?;
    replies.array(names.len());
    for name in names {
        match by_full_name(name) {
            Some(command) => describe(replies, command),
            None => replies.null(),
        }
    }
    Ok(())
}

pub(super) fn describe(replies: &mut Replies, command: &Command) {
    replies.array(10);
    replies.bulk(command.name);
    replies.integer(command.arity.into());
    replies.set(command.flags.len());
    for flag in command.flags {
        replies.simple(flag.name());
    }
    for position in range(command.keys) {
        replies.integer(position.into());
    }
    categories(replies, command);
    replies.set(command.tips.len());
    for tip in command.tips {
        replies.bulk(tip);
    }
    replies.set(command.keys.len());
    for keys in command.keys {
        specification(replies, *keys);
    }
    replies.set(command.subcommands.len());
    for subcommand in command.subcommands {
        describe(replies, subcommand);
    }
}

fn categories(replies: &mut Replies, command: &Command) {
    let of_it = || {
        Category::ALL
            .iter()
            .filter(|&&category| command.is_in(category))
    };
    replies.set(of_it().count());
    for category in of_it() {
        replies.simple(&format!("@{}", category.name()));
    }
}

fn specification(replies: &mut Replies, keys: Keys) {
    let notes = usize::from(!keys.notes.is_empty());
    replies.map(3 + notes);
    if notes > 0 {
        replies.bulk("notes");
        replies.bulk(keys.notes);
    }
    replies.bulk("flags");
    replies.set(keys.flags.len());
    for flag in keys.flags {
        replies.simple(flag.name());
    }
    if let Some(option) = keys.of_option {
        return of_option(replies, option);
    }
    replies.bulk("begin_search");
    match keys.keyword {
        Some(keyword) => behind(replies, keyword, keys.first),
        None => typed(replies, "index", &[("index", keys.first)]),
    }
    replies.bulk("find_keys");
    if keys.counted {
        let numbers = [("keynumidx", 0), ("firstkey", 1), ("keystep", keys.step)];
        return typed(replies, "keynum", &numbers);
    }
    // Of what follows a word the first half.
    let limit = if keys.keyword.is_some() { 2 } else { 0 };
    let range = [
        ("lastkey", keys.last),
        ("keystep", keys.step),
        ("limit", limit),
    ];
    typed(replies, "range", &range);
}

fn behind(replies: &mut Replies, keyword: &str, from: i32) {
    replies.map(2);
    replies.bulk("type");
    replies.bulk("keyword");
    replies.bulk("spec");
    replies.map(2);
    replies.bulk("keyword");
    replies.bulk(keyword);
    replies.bulk("startfrom");
    replies.integer(from.into());
}

/// One key behind a word, or at a place that clients do not know.
fn of_option(replies: &mut Replies, option: OfOption) {
    let OfOption::Behind { keyword, from, .. } = option else {
        for search in ["begin_search", "find_keys"] {
            replies.bulk(search);
            typed(replies, "unknown", &[]);
        }
        return;
    };
    replies.bulk("begin_search");
    behind(replies, keyword, from);
    replies.bulk("find_keys");
    let range = [("lastkey", 0), ("keystep", 1), ("limit", 0)];
    typed(replies, "range", &range);
}

fn typed(replies: &mut Replies, kind: &str, fields: &[(&str, i32)]) {
    replies.map(2);
    replies.bulk("type");
    replies.bulk(kind);
    replies.bulk("spec");
    replies.map(fields.len());
    for &(name, value) in fields {
        replies.bulk(name);
        replies.integer(value.into());
    }
}

/// First, last and step, as clients of before Redis 7 read them: of several
/// specifications, as long as each begins where the one before it ends.
fn range(specifications: &[Keys]) -> [i32; 3] {
    let mut result = [0; 3];
    for keys in specifications
        .iter()
        .filter(|keys| !keys.counted && keys.keyword.is_none())
    {
        let last = if keys.last < 0 {
            keys.last
        } else {
            keys.first + keys.last
        };
        result = match result {
            [0, ..] => [keys.first, last, keys.step],
            [first, before, 1] if keys.step == 1 && keys.first == before + 1 => [first, last, 1],
            other => return other,
        };
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_keys() {
        let key = |position| Keys::at(position, &[]);
        assert_eq!(range(&[]), [0, 0, 0]);
        assert_eq!(range(&[key(1)]), [1, 1, 1]);
        assert_eq!(range(&[key(1).last(-1).step(2)]), [1, -1, 2]);
        assert_eq!(range(&[key(1), key(2)]), [1, 2, 1]);
        assert_eq!(range(&[key(2), key(3).last(-1)]), [2, -1, 1]);
    }
}
