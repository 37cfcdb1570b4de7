//! From a request to its command.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::definition::Command;
use super::{
    Context, Failure, cluster, connection, geo, hash, hyperloglog, keys, list, publish, scripting,
    server, set, sorted_set, stream, string, transaction,
};

/// Every folder of commands.
static FOLDERS: &[&[&Command]] = &[
    cluster::COMMANDS,
    connection::COMMANDS,
    geo::COMMANDS,
    hash::COMMANDS,
    hyperloglog::COMMANDS,
    keys::COMMANDS,
    list::COMMANDS,
    publish::COMMANDS,
    scripting::COMMANDS,
    server::COMMANDS,
    set::COMMANDS,
    sorted_set::COMMANDS,
    stream::COMMANDS,
    string::COMMANDS,
    transaction::COMMANDS,
];

/// All commands, without their subcommands, by name.
pub(super) static COMMANDS: LazyLock<Vec<&'static Command>> = LazyLock::new(|| {
    let mut all = FOLDERS.concat();
    all.sort_by_key(|command| command.name);
    all
});

/// What is in it is ours: no client can fill it with names that collide.
static BY_NAME: LazyLock<FxHashMap<&'static [u8], &'static Command>> = LazyLock::new(|| {
    COMMANDS
        .iter()
        .map(|&command| (command.name.as_bytes(), command))
        .collect()
});

/// The names of all that can be executed: commands, and `command|subcommand`.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().flat_map(|&command| {
        let subcommands = command.subcommands.iter().map(|sub| sub.name);
        std::iter::once(command.name).chain(subcommands)
    })
}

/// A request's command, and how many of its words are the name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) command: &'static Command,
    pub(crate) name_words: usize,
}

impl Call {
    /// Refuses keys that are reserved for bpfdb.
    pub(crate) fn check_keys(self, words: &[Vec<u8>]) -> Result<(), Failure> {
        for keys in self.command.keys.iter().filter(|keys| !keys.are_none()) {
            for at in keys.positions(words) {
                refuse_reserved(&words[at])?;
            }
        }
        Ok(())
    }
}

/// Refuses a key that is reserved for bpfdb.
pub(super) fn refuse_reserved(key: &[u8]) -> Result<(), Failure> {
    if bpfdb::is_reserved(key) {
        return Err("ERR keys that begin with \\0bpfdb\\0 are reserved for bpfdb".into());
    }
    Ok(())
}

/// The command of a request with the right number of words, and with keys of clients.
pub(crate) fn resolve(words: &[Vec<u8>]) -> Result<Call, Failure> {
    let call = find(words)?;
    if !call.command.fits(words.len()) {
        return Err(wrong_arity(call.command.name));
    }
    call.check_keys(words)?;
    Ok(call)
}

/// The same, whatever the number of words.
pub(crate) fn find(words: &[Vec<u8>]) -> Result<Call, Failure> {
    let command = command(&words[0]).ok_or_else(|| unknown(words))?;
    let container = Call {
        command,
        name_words: 1,
    };
    match words.get(1) {
        Some(word) if !command.subcommands.is_empty() => {
            let command =
                subcommand(command, word).ok_or_else(|| unknown_subcommand(command.name, word))?;
            Ok(Call {
                command,
                name_words: 2,
            })
        }
        _ => Ok(container),
    }
}

/// A command by its name.
fn command(name: &[u8]) -> Option<&'static Command> {
    const LONGEST: usize = 32;
    let mut small = [0; LONGEST];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    BY_NAME.get(&*small).copied()
}

fn subcommand(command: &Command, word: &[u8]) -> Option<&'static Command> {
    let is =
        |candidate: &&&'static Command| candidate.last_name().as_bytes().eq_ignore_ascii_case(word);
    command.subcommands.iter().find(is).copied()
}

/// A command or, as `command|subcommand`, a subcommand.
pub(super) fn by_full_name(name: &[u8]) -> Option<&'static Command> {
    let bar = name.iter().position(|&byte| byte == b'|');
    match bar {
        None => command(name),
        Some(bar) => subcommand(command(&name[..bar])?, &name[bar + 1..]),
    }
}

pub(super) fn wrong_arity(name: &str) -> Failure {
    format!("ERR wrong number of arguments for '{name}' command").into()
}

/// What Redis says where it checks the number itself, of a subcommand of `name`. The words are
/// the request's: Redis repeats the subcommand as it was written.
pub(super) fn wrong_subcommand_arity(context: &Context<'_>, name: &str) -> Failure {
    let start = b"ERR unknown subcommand or wrong number of arguments for '";
    let help = format!("'. Try {name} HELP.");
    let word = c_string(&context.connection.subcommand, SHOWN);
    Failure::Text([start, word, help.as_bytes()].concat())
}

const SHOWN: usize = 128;

fn unknown_subcommand(name: &str, word: &[u8]) -> Failure {
    let help = format!("'. Try {} HELP.", name.to_ascii_uppercase());
    let start = b"ERR unknown subcommand '";
    Failure::Text([start, c_string(word, SHOWN), help.as_bytes()].concat())
}

/// Redis quotes the name and the first arguments, each and all of them up to
/// 128 bytes, and as C strings.
fn unknown(words: &[Vec<u8>]) -> Failure {
    let mut arguments = Vec::new();
    for word in &words[1..] {
        if arguments.len() >= SHOWN {
            break;
        }
        let shown = c_string(word, SHOWN - arguments.len());
        arguments.extend_from_slice(&[b"'", shown, b"' "].concat());
    }
    Failure::Text(
        [
            b"ERR unknown command '",
            c_string(&words[0], SHOWN),
            b"', with args beginning with: ",
            &arguments,
        ]
        .concat(),
    )
}

fn c_string(bytes: &[u8], longest: usize) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    &bytes[..end.unwrap_or(bytes.len()).min(longest)]
}

#[cfg(test)]
mod tests {
    use bpfdb::commands::KERNEL_COMMANDS;

    use super::super::definition::{Flag, Group, Path};
    use super::super::syntax;
    use super::*;

    fn with_subcommands() -> impl Iterator<Item = &'static Command> {
        COMMANDS.iter().flat_map(|&command| {
            std::iter::once(command).chain(command.subcommands.iter().copied())
        })
    }

    #[test]
    fn every_command_is_found_by_its_name() {
        for command in with_subcommands() {
            let upper = command.name.to_ascii_uppercase();
            let found = by_full_name(upper.as_bytes()).expect("found");
            assert!(std::ptr::eq(found, command), "{}", command.name);
        }
    }

    #[test]
    fn definitions_are_complete() {
        for command in with_subcommands() {
            let name = command.name;
            assert!(!name.is_empty() && name == name.to_ascii_lowercase());
            assert!(!command.summary.is_empty(), "{name}");
            assert!(!command.since.is_empty(), "{name}");
            assert!(!command.complexity.is_empty(), "{name}");
            assert!(command.arity != 0, "{name}");
            let arguments = syntax::parse(command.arguments).expect(name);
            assert!(
                arguments.is_empty() || command.arity.unsigned_abs() > 1 || command.arity < 0,
                "{name}"
            );
            for sub in command.subcommands {
                assert!(sub.name.starts_with(&format!("{name}|")), "{}", sub.name);
            }
        }
    }

    /// What the kernel passes on the daemon answers; so it has each of the kernel's
    /// commands too, and both agree on what the command does.
    #[test]
    fn the_kernels_commands_are_defined_here_with_the_same_flags() {
        for known in KERNEL_COMMANDS {
            let name = known.name;
            let here = command(name.as_bytes()).unwrap_or_else(|| panic!("{name} is not defined"));
            assert_eq!(known.reads(), here.has(Flag::Readonly), "{name}: Readonly");
            // What a call of a procedure does is not known before: as in Redis, its flags do
            // not say it, but that it may write.
            let calls = here.group == Group::Scripting;
            let writes = here.has(Flag::Write) || (calls && here.writes_now.is_some());
            assert_eq!(known.writes(), writes, "{name}: Write");
            let needs_room = here.has(Flag::DenyOom) || (calls && writes);
            assert_eq!(known.needs_room(), needs_room, "{name}: DenyOom");
            let transactional = here.group == Group::Transactions;
            assert_eq!(
                known.is_transactional(),
                transactional,
                "{name}: Transactions"
            );
        }
    }

    #[test]
    fn the_kernel_answers_what_is_in_its_list() {
        let kernel = with_subcommands().filter(|command| command.path() == Path::Kernel);
        assert_eq!(kernel.count(), KERNEL_COMMANDS.len());
    }
}
