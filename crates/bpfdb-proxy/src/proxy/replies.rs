//! From a server to its client: messages, as far as they have come.

use bytes::Buf;

use super::{HIGH, Proxy, Work};
use crate::awaited::{Expected, Own};
use crate::io::slab::Id;
use crate::server::Stage;
use crate::wire::framing::Next;
use crate::wire::reply::state;

/// Longest message that is awaited whole: those are tags, parameters and single bytes.
const WHOLE_MAX: usize = 64 * 1024;

/// A client has so many other servers when one has refused its parameters.
const UNFIT_MAX: u32 = 2;

mod kind {
    pub(super) const READY: u8 = b'Z';
    pub(super) const COMPLETE: u8 = b'C';
    pub(super) const PARAMETER: u8 = b'S';
    pub(super) const PARSED: u8 = b'1';
    pub(super) const CLOSED: u8 = b'3';
    pub(super) const ERROR: u8 = b'E';
    pub(super) const COPY_IN: u8 = b'G';
    pub(super) const ROW: u8 = b'D';
}

/// Does it answer a message of a batch? Of two answers to one the second is counted.
fn is_answer(kind: u8) -> bool {
    b"123CIsTn".contains(&kind)
}

use kind::{CLOSED, COMPLETE, COPY_IN, ERROR, PARAMETER, PARSED, READY, ROW};

impl Proxy {
    /// Brings on what a server has sent, as far as its client takes it.
    pub(super) fn serve_server(&mut self, id: Id) {
        let Some(server) = self.servers.get(id) else {
            return;
        };
        if !server.is_ready() {
            match server.stage {
                Stage::LogsIn(_) => self.log_in(id),
                Stage::AskedTls => self.tls_answered(id),
                _ => {}
            }
            return;
        }
        if !self.servers[id].input.is_empty() {
            self.resume(id);
        }
        while self.serve_reply(id) {}
        let Some(server) = self.servers.get(id) else {
            return;
        };
        if let Some(client) = server.client {
            self.flush_client(client);
            if self.is_shadow(client) {
                self.work.push_back(Work::Client(client));
            }
        }
        self.list_again(id);
        if self.servers.get(id).is_some_and(|server| server.has_ended) && !self.is_held_up(id) {
            return self.server_is_over(id);
        }
        self.server_waits(id);
    }

    /// Has a server said more than its client takes now?
    pub(super) fn is_held_up(&self, id: Id) -> bool {
        let client = self.servers.get(id).and_then(|server| server.client);
        let client = client.and_then(|client| self.clients.get(client));
        client.is_some_and(|client| client.output.len() >= HIGH)
    }

    fn serve_reply(&mut self, id: Id) -> bool {
        let Some(server) = self.servers.get(id) else {
            return false;
        };
        let client = server.client.and_then(|client| self.clients.get(client));
        if client.is_some_and(|client| client.output.len() >= HIGH) {
            return false;
        }
        match server.framing.next(&server.input) {
            Next::Short => false,
            Next::Within(left) => {
                let bytes = left.min(server.input.len());
                let discards = server.discards;
                self.bring(id, bytes, !discards);
                self.servers[id].framing.passed(bytes);
                true
            }
            Next::Broken => self.broken(id),
            Next::Begins { kind, size, body } => self.reply_begins(id, kind, size, body),
        }
    }

    /// A session is not as its client has to have it, or the next.
    fn unfit(&mut self, id: Id, own: Own) -> bool {
        tracing::warn!(?own, "a server has refused a statement of the proxy");
        if own == Own::Connect {
            // The next one would refuse it, too.
            let number = self.servers[id].pool;
            self.refuse_waiting(number, "the server refuses connect_query");
        }
        let client = self.servers[id].client;
        self.close_server(id);
        if let Some(client) = client {
            // It may have been for what another client has left, such as a short timeout.
            if let Some(state) = self.clients.get_mut(client)
                && !state.pinned
                && state.is_between()
                && state.unfit < UNFIT_MAX
            {
                state.unfit += 1;
                self.work.push_back(Work::Client(client));
                return false;
            }
            let told = "the server does not take the parameters of this session";
            self.refuse(client, state::CONNECTION_FAILURE, told);
        }
        false
    }

    fn broken(&mut self, id: Id) -> bool {
        tracing::error!("a server sends what is no message");
        let client = self.servers[id].client;
        self.close_server(id);
        if let Some(client) = client {
            let told = "the server sends what is no message";
            self.refuse(client, state::PROTOCOL_VIOLATION, told);
        }
        false
    }

    fn reply_begins(&mut self, id: Id, kind: u8, size: usize, body: usize) -> bool {
        let server = &mut self.servers[id];
        let there = server.input.len();
        let is_whole = matches!(kind, READY | COMPLETE | PARAMETER | PARSED | CLOSED)
            || kind == ROW && server.lookup.is_some();
        let is_empty = kind == READY && size <= body;
        if is_whole && size > WHOLE_MAX || is_empty {
            return self.broken(id);
        }
        if is_whole && there < size {
            return false;
        }
        let own = match server.expected.first_end() {
            Some(Expected::Own(own)) => Some(*own),
            _ => None,
        };
        let mut shown = own.is_none();
        let mut over = false;
        server.answers += usize::from(is_answer(kind));
        match kind {
            PARSED | CLOSED => shown &= !self.made(id),
            COMPLETE if shown => self.complete(id, size, body),
            PARAMETER => self.parameter(id, size, body, shown),
            ERROR => self.failed(id),
            ROW => self.row(id, size, body),
            COPY_IN => self.copies(id),
            READY => {
                let status = server.input[body];
                self.brought_is_answered(id);
                over = self.ready(id, status);
                if let Some(own) = self.servers[id].refused {
                    return self.unfit(id, own);
                }
            }
            _ => {}
        }
        let bytes = size.min(there);
        self.bring(id, bytes, shown);
        let server = &mut self.servers[id];
        server.framing.begun(kind, size, bytes);
        server.discards = !shown;
        if over {
            self.settled(id, own);
        } else if kind == READY
            && let Some(client) = self.servers[id].client
            && !self.is_shadow(client)
        {
            // It may wait for that with what it has sent since. Shadows wait for the last one.
            self.work.push_back(Work::Client(client));
        }
        true
    }

    /// Bytes of a server to its client, if it has one and they are for it.
    fn bring(&mut self, id: Id, bytes: usize, shown: bool) {
        let server = &mut self.servers[id];
        let client = server.client.filter(|_| shown);
        if let Some(client) = client.and_then(|client| self.clients.get_mut(client)) {
            client.output.extend_from_slice(&server.input[..bytes]);
        }
        server.input.advance(bytes);
    }
}
