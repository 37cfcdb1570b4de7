//! XGROUP: groups of consumers.

mod create;
mod createconsumer;
mod delconsumer;
mod destroy;
mod help;
mod setid;

use bpfdb_values::stream::State;
use bpfdb_values::stream::groups;

use super::super::arguments::{is, number};
use super::super::prelude::*;
use super::super::table::wrong_subcommand_arity;
use super::ids;
use super::store::{self, Changed};

pub(crate) static COMMAND: Command = Command {
    name: "xgroup",
    summary: "Groups of consumers",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "That of the subcommand",
    arity: -2,
    subcommands: &[
        &create::COMMAND,
        &createconsumer::COMMAND,
        &delconsumer::COMMAND,
        &destroy::COMMAND,
        &help::COMMAND,
        &setid::COMMAND,
    ],
    ..Command::BASE
};

/// Options of CREATE and SETID.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    makes_stream: bool,
    read: Option<u64>,
}

impl Options {
    fn parse(
        context: &Context<'_>,
        mut words: &[Vec<u8>],
        may_make: bool,
    ) -> Result<Self, Failure> {
        let mut options = Self::default();
        while let [option, rest @ ..] = words {
            words = match rest {
                rest if may_make && is(option, "mkstream") => {
                    options.makes_stream = true;
                    rest
                }
                [count, rest @ ..] if is(option, "entriesread") => {
                    options.read = entries_read(count)?;
                    rest
                }
                _ => return Err(wrong_subcommand_arity(context, "XGROUP")),
            };
        }
        Ok(options)
    }
}

/// `None`: -1, it is not known.
fn entries_read(text: &[u8]) -> Result<Option<u64>, Failure> {
    match number(text)? {
        -1 => Ok(None),
        count => match u64::try_from(count) {
            Ok(count) => Ok(Some(count)),
            Err(_) => Err("ERR value for ENTRIESREAD must be positive or -1".into()),
        },
    }
}

fn no_stream() -> Failure {
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.".into()
}

/// Does to a group what `work` says; the first words are the key and its name.
fn change<T>(
    context: &mut Context<'_>,
    words: &[Vec<u8>],
    mut work: impl FnMut(&State, &mut groups::Group) -> Result<(Changed, T), Failure>,
) -> Result<T, Failure> {
    store::change(context.session, &words[0], |stream, is_there| {
        if !is_there {
            return Err(no_stream());
        }
        let state = stream.state;
        match stream.groups()?.get_mut(&words[1]) {
            Some(group) => work(&state, group),
            None => Err(ids::no_group_of_key(&words[0], &words[1])),
        }
    })
}
