//! Calls that the daemon has the kernel run, where it does not see the request.

use bpfdb_procedures::inside::ReplyRef;

use super::super::atomic;
use super::super::prelude::*;
use super::program::Program;
use crate::protocol::reply::Replies;
use crate::scripting::procedures::{DirectCall, DirectKind};

/// Words of a call: keys, and arguments behind them.
pub(super) struct Words<'a> {
    pub(super) all: &'a [Vec<u8>],
    pub(super) keys: usize,
}

/// Answers a call whose procedure is compiled. False: the interpreter is to run it. `by_text`:
/// the request has the whole script, so the kernel never saw it as a call.
pub(super) fn answer(
    context: &mut Context<'_>,
    program: &Program,
    words: &Words<'_>,
    reads_only: bool,
    by_text: bool,
) -> bool {
    let is_daemons = by_text || stays_with_daemon(context);
    if !is_daemons || atomic::is_open(context.session) || context.instance.refuses_writes() {
        return false;
    }
    // The kernel does not show what a procedure does.
    let instance = &*context.instance;
    if !instance.monitors.is_empty() || instance.settings.keyspace_events.is_any() {
        return false;
    }
    let (keys, arguments) = words.all.split_at(words.keys);
    let (kind, text, function) = match program {
        Program::Script(script) => (DirectKind::Script, script.name, &b""[..]),
        Program::Function(function) => (
            DirectKind::Function,
            function.library.source.sha1(),
            &function.registered().name[..],
        ),
    };
    let call = DirectCall {
        kind,
        text,
        function,
        reads_only,
        is_sync: context.connection.was_sync,
        keys,
        arguments,
    };
    let procedures = &mut context.instance.procedures;
    let Some(reply) = procedures.call(&call, context.session) else {
        return false;
    };
    write(context.replies, reply);
    if let ReplyRef::Error(text) = reply {
        let text = text.to_vec();
        context.instance.count_error(&text);
    }
    true
}

/// Does the daemon execute all of this client's calls? Of others it executes those that the
/// kernel has given up: it would do so again.
fn stays_with_daemon(context: &Context<'_>) -> bool {
    !context.connection.may_be_handed_back() || context.instance.keeps_connections()
}

/// Writes a reply in the client's protocol.
fn write(replies: &mut Replies, reply: ReplyRef<'_>) {
    match reply {
        ReplyRef::Nil => replies.null(),
        ReplyRef::Integer(value) => replies.integer(value),
        ReplyRef::Text(bytes) => replies.bulk(bytes),
        ReplyRef::Status(text) => replies.status(text),
        ReplyRef::Error(text) => replies.error(text),
        ReplyRef::List(elements) => {
            replies.array(elements.count());
            for element in elements {
                write(replies, element);
            }
        }
    }
}
