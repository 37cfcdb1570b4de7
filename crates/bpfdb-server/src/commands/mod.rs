//! The commands: one table, which COMMAND shows too.

mod administration;
mod counter;
mod keys;
mod string;
mod transaction;

use std::thread;
use std::time::Duration;

use bpfdb::{Engine, Session, Status};

use crate::reply::{self, Replies};
use crate::request::Request;

/// What a command works with.
pub(crate) struct Context<'a> {
    pub(crate) engine: &'a Engine,
    /// Directed at the connection's session.
    pub(crate) session: &'a mut Session,
    pub(crate) replies: &'a mut Replies,
    /// Number of the connection, for CLIENT ID.
    pub(crate) id: u64,
    pub(crate) name: &'a mut Vec<u8>,
    /// Set by a command after which the connection is closed.
    pub(crate) close: &'a mut bool,
}

/// Why a statement has no other reply.
#[derive(Debug)]
pub(crate) enum Failure {
    Engine(Status),
    Text(Vec<u8>),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Engine(status)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Text(text.into_bytes())
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }
}

type Outcome = Result<(), Failure>;
type Run = fn(&mut Context<'_>, &[Vec<u8>]) -> Outcome;

struct Command {
    name: &'static str,
    /// Words, the name included; negative: at least as many.
    arity: i32,
    /// Where keys stand: first, last (negative: from the end), step.
    keys: (i32, i32, i32),
    writes: bool,
    run: Run,
}

const fn command(
    name: &'static str,
    arity: i32,
    keys: (i32, i32, i32),
    writes: bool,
    run: Run,
) -> Command {
    Command {
        name,
        arity,
        keys,
        writes,
        run,
    }
}

const NO_KEYS: (i32, i32, i32) = (0, 0, 0);
const ONE_KEY: (i32, i32, i32) = (1, 1, 1);
const ALL_KEYS: (i32, i32, i32) = (1, -1, 1);
const PAIRS: (i32, i32, i32) = (1, -1, 2);

static COMMANDS: &[Command] = &[
    command("append", 3, ONE_KEY, true, string::append),
    command("begin", -1, NO_KEYS, false, transaction::begin),
    command("client", -2, NO_KEYS, false, administration::client),
    command("command", -1, NO_KEYS, false, administration::command),
    command("commit", 1, NO_KEYS, true, transaction::commit),
    command("config", -2, NO_KEYS, false, administration::config),
    command("dbsize", 1, NO_KEYS, false, administration::dbsize),
    command("decr", 2, ONE_KEY, true, counter::decr),
    command("decrby", 3, ONE_KEY, true, counter::decrby),
    command("del", -2, ALL_KEYS, true, keys::del),
    command("echo", 2, NO_KEYS, false, administration::echo),
    command("exists", -2, ALL_KEYS, false, keys::exists),
    command("get", 2, ONE_KEY, false, string::get),
    command("hello", -1, NO_KEYS, false, administration::hello),
    command("incr", 2, ONE_KEY, true, counter::incr),
    command("incrby", 3, ONE_KEY, true, counter::incrby),
    command("info", -1, NO_KEYS, false, administration::info),
    command("mget", -2, ALL_KEYS, false, keys::mget),
    command("mset", -3, PAIRS, true, keys::mset),
    command("ping", -1, NO_KEYS, false, administration::ping),
    command("quit", -1, NO_KEYS, false, administration::quit),
    command("rollback", 1, NO_KEYS, false, transaction::rollback),
    command("select", 2, NO_KEYS, false, administration::select),
    command("set", -3, ONE_KEY, true, string::set),
    command("strlen", 2, ONE_KEY, false, string::strlen),
];

/// Executes a request and adds its reply.
pub(crate) fn execute(context: &mut Context<'_>, request: &Request) {
    let start = context.replies.len();
    let outcome = find(&request.words)
        .and_then(|command| {
            if request.cut {
                return Err(Status::ValueTooLarge.into());
            }
            Ok(command)
        })
        .and_then(|command| patiently(context, command, &request.words[1..]));

    if let Err(failure) = outcome {
        context.replies.truncate(start);
        match failure {
            Failure::Text(text) => context.replies.error(text),
            Failure::Engine(status) => {
                // An Error fails the client's transaction, if there is one.
                let inside = transaction::has_failed(context.session);
                context.replies.error(reply::error_text(status, inside));
            }
        }
    }
}

/// Runs a command, and again if that may help: a failed statement has done
/// nothing, unless it has failed a transaction.
fn patiently(context: &mut Context<'_>, command: &Command, words: &[Vec<u8>]) -> Outcome {
    let start = context.replies.len();
    let mut tries = 0;
    loop {
        let outcome = (command.run)(context, words);
        let Err(Failure::Engine(status)) = outcome else {
            return outcome;
        };
        // Memory is being added; or another processor holds a lock for a moment
        // (if a client does, it may do so for long).
        let (most, pause) = match status {
            Status::MemoryPending => (100, Duration::from_millis(1)),
            Status::Conflict => (5, Duration::from_micros(200)),
            _ => return outcome,
        };
        tries += 1;
        if tries > most || transaction::has_failed(context.session) {
            return outcome;
        }
        context.replies.truncate(start);
        thread::sleep(pause);
    }
}

fn find(words: &[Vec<u8>]) -> Result<&'static Command, Failure> {
    let name = &words[0];
    let command = COMMANDS
        .iter()
        .find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
        .ok_or_else(|| unknown(words))?;
    let fits = if command.arity < 0 {
        words.len() as i32 >= -command.arity
    } else {
        words.len() as i32 == command.arity
    };
    if fits {
        Ok(command)
    } else {
        Err(wrong_arity(command.name))
    }
}

pub(crate) fn wrong_arity(name: &str) -> Failure {
    format!("ERR wrong number of arguments for '{name}' command").into()
}

/// Redis quotes the name and the first arguments, each and all of them up to
/// 128 bytes, and as C strings.
fn unknown(words: &[Vec<u8>]) -> Failure {
    const SHOWN: usize = 128;
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
