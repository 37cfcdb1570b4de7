//! CLIENT LIST.

use std::rc::Rc;
use std::time::Instant;

use super::super::super::arguments::{is, syntax_error};
use super::super::super::job::DeferredCommand;
use super::super::super::prelude::*;
use crate::connection::info::{ConnectionInfo, Waiting};
use crate::connection::subscribed::Kind;
use crate::connection::{Connection, State};
use crate::kernel::connections::KernelConnections;
use crate::protocol::reply::Protocol;

pub(crate) static COMMAND: Command = Command {
    name: "client|list",
    summary: "What is known about all connections",
    since: "2.4.0",
    group: Group::Connection,
    complexity: "O(connections)",
    arity: -2,
    arguments: "[TYPE normal_master_replica_pubsub(NORMAL|MASTER|REPLICA|PUBSUB)@5.0.0], [ID id{client-id:integer...}@6.2.0]",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    tips: &["nondeterministic_output"],
    differences: "The flag x is also that of a transaction of BEGIN, with multi=-1. For a connection that the daemon serves, qbuf is what it keeps in memory; events, rbs and rbp mean nothing.",
    run: |context, _| {
        context.go_on_with(DeferredCommand(run));
        Ok(())
    },
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let wanted = filter(arguments)?;
    look(context);
    let protocol = context.replies.protocol();
    let mut lines = Vec::new();
    if wanted.includes(context.connection) {
        lines.push((
            context.connection.id,
            describe(context.connection, protocol),
        ));
    }
    let others = context.others.iter();
    let others = others.filter(|other| wanted.includes(&other.info));
    lines.extend(others.map(|other| {
        (
            other.info.id,
            describe(&other.info, other.replies.protocol()),
        )
    }));
    lines.sort_unstable_by_key(|&(id, _)| id);

    let mut text = String::new();
    for (_, line) in lines {
        text += &line;
        text.push('\n');
    }
    context.replies.verbatim("txt", &text);
    Ok(())
}

/// The kernel does not report what it answers: that is looked up now.
fn look(context: &mut Context<'_>) {
    let (kernel, now) = (Rc::clone(&context.instance.kernel), Instant::now());
    for other in context.others.iter_mut() {
        other.look_at_activity(&kernel, now);
        look_at(other, &kernel);
        other.info.begun.transaction = context.session.is_begun_by_client(other.index);
    }
    look_at_own(context);
}

/// The connection that asks.
pub(super) fn look_at_own(context: &mut Context<'_>) {
    // What it has asked for is being answered.
    context.connection.waiting = Waiting::default();
    context.connection.begun = context.multi.summary(false);
    context.connection.begun.transaction =
        context.session.is_begun_by_client(context.session.index());
}

fn look_at(connection: &mut Connection, kernel: &KernelConnections) {
    let mut waiting = Waiting {
        requests: 0,
        replies: connection.unsent(),
    };
    if !connection.info.is_unix() {
        waiting.requests = kernel.unanswered(connection.index) as usize;
    }
    if connection.state == State::Daemon {
        waiting.requests += connection.info.input;
    } else if let Some(name) = kernel
        .last_command(connection.index)
        .and_then(kernel_command)
    {
        connection.info.command = name;
    }
    connection.info.waiting = waiting;
}

fn kernel_command(number: u32) -> Option<&'static str> {
    let mut all = bpfdb::commands::KERNEL_COMMANDS.iter();
    all.find(|known| known.number == number)
        .map(|known| known.name)
}

enum Wanted {
    All,
    Type(ClientType),
    Ids(Vec<i64>),
}

impl Wanted {
    fn includes(&self, connection: &ConnectionInfo) -> bool {
        match self {
            Self::All => true,
            Self::Type(wanted) => ClientType::of(connection) == *wanted,
            Self::Ids(ids) => i64::try_from(connection.id).is_ok_and(|id| ids.contains(&id)),
        }
    }
}

fn filter(arguments: &[Vec<u8>]) -> Result<Wanted, Failure> {
    match arguments {
        [] => Ok(Wanted::All),
        [option, kind] if is(option, "type") => ClientType::parse(kind).map(Wanted::Type),
        [option, ids @ ..] if is(option, "id") && !ids.is_empty() => ids
            .iter()
            .map(|id| client_id(id))
            .collect::<Result<_, _>>()
            .map(Wanted::Ids),
        _ => Err(syntax_error()),
    }
}

/// Any number: no client has one below 1.
fn client_id(text: &[u8]) -> Result<i64, Failure> {
    crate::values::integer::parse(text).ok_or_else(|| "ERR Invalid client ID".into())
}

/// Redis's types of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientType {
    Normal,
    /// Has subscribed to something.
    Pubsub,
    /// There are none.
    Replication,
}

impl ClientType {
    pub(super) fn parse(text: &[u8]) -> Result<Self, Failure> {
        match text.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Self::Normal),
            b"pubsub" => Ok(Self::Pubsub),
            b"master" | b"replica" | b"slave" => Ok(Self::Replication),
            _ => Err(Failure::Text(
                [b"ERR Unknown client type '", text, b"'"].concat(),
            )),
        }
    }

    pub(super) fn of(connection: &ConnectionInfo) -> Self {
        if connection.subscribed.is_any() {
            Self::Pubsub
        } else {
            Self::Normal
        }
    }
}

/// One connection as CLIENT LIST shows it, with Redis's names.
pub(super) fn describe(connection: &ConnectionInfo, protocol: Protocol) -> String {
    let text = String::from_utf8_lossy;
    let mut flags = String::new();
    for (is_so, letter) in [
        (connection.is_monitor, 'O'),
        (connection.subscribed.is_any(), 'P'),
        (
            connection.begun.queued.is_some() || connection.begun.transaction,
            'x',
        ),
        (connection.begun.blocked, 'b'),
        (connection.is_unix(), 'U'),
        (connection.no_evict, 'e'),
        (connection.no_touch, 'T'),
    ] {
        if is_so {
            flags.push(letter);
        }
    }
    if flags.is_empty() {
        flags.push('N');
    }
    let begun = connection.begun;
    let waiting = connection.waiting;
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub={} psub={} \
         ssub={} multi={} qbuf={} qbuf-free={} argv-mem=0 multi-mem={} rbs=0 rbp=0 obl={} oll=0 \
         omem={} tot-mem={} events=r cmd={} user=default redir=-1 resp={} lib-name={} lib-ver={}",
        connection.id,
        connection.peer,
        connection.local,
        connection.fd,
        text(&connection.name),
        connection.since.elapsed().as_secs(),
        connection.active.elapsed().as_secs(),
        connection.database,
        connection.subscribed.count(Kind::Channel),
        connection.subscribed.count(Kind::Pattern),
        connection.subscribed.count(Kind::Shard),
        begun.queued.map_or(-1, |commands| commands as i64),
        waiting.requests,
        connection.input.saturating_sub(waiting.requests),
        begun.queue_memory,
        waiting.replies,
        if waiting.replies > 0 {
            connection.output
        } else {
            0
        },
        connection.memory(),
        connection.command,
        protocol.version(),
        text(&connection.library_name),
        text(&connection.library_version),
    )
}
