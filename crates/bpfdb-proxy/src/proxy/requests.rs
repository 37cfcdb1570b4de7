//! From a client to its server.

use bytes::Buf;

use super::{HELD_MAX, HIGH, Proxy};
use crate::awaited::Expected;
use crate::client::{Client, Stage};
use crate::io::slab::Id;
use crate::server::{Copying, IDLE};
use crate::wire::assignment::Assignment;
use crate::wire::framing::{HEADER, Next};
use crate::wire::hint::{self, Beyond, Hint};
use crate::wire::reply::state;
use crate::wire::text;

/// What came of a message that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// More of it is needed first.
    Short,
    /// The client is gone.
    Gone,
}

/// What a client has sent is noted until it is answered. Behind an error PostgreSQL reads on without answers: so there
/// could be any number.
const EXPECTED_MAX: usize = 1 << 19;

/// Types of messages.
mod kind {
    pub(super) const QUERY: u8 = b'Q';
    pub(super) const CALL: u8 = b'F';
    pub(super) const SYNC: u8 = b'S';
    pub(super) const FLUSH: u8 = b'H';
    pub(super) const EXECUTE: u8 = b'E';
    pub(super) const PARSE: u8 = b'P';
    pub(super) const BIND: u8 = b'B';
    pub(super) const DESCRIBE: u8 = b'D';
    pub(super) const CLOSE: u8 = b'C';
    pub(super) const TERMINATE: u8 = b'X';
    pub(super) const COPY_DATA: u8 = b'd';
    pub(super) const COPY_DONE: u8 = b'c';
    pub(super) const COPY_FAIL: u8 = b'f';
}

use kind::{
    BIND, CALL, CLOSE, COPY_DATA, COPY_DONE, COPY_FAIL, DESCRIBE, EXECUTE, FLUSH, PARSE, QUERY,
    SYNC, TERMINATE,
};

fn is_copy(kind: u8) -> bool {
    matches!(kind, COPY_DATA | COPY_DONE | COPY_FAIL)
}

fn is_known(kind: u8) -> bool {
    is_copy(kind) || b"QFSHEPBDCX".contains(&kind)
}

impl Proxy {
    /// Brings on what a client has sent, as far as that goes now.
    pub(super) fn serve_client(&mut self, id: Id) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if let Some(state) = &mut client.shadow {
            state.is_fed = false;
        }
        if client.ends.is_some() {
            return;
        }
        if !self.start_client(id) {
            // Else a client that leaves, or sends on, is seen again and again.
            let waits =
                |client: &Client| matches!(client.stage, Stage::Greeted | Stage::LooksUp { .. });
            if self.clients.get(id).is_some_and(waits) {
                self.client_waits(id);
            }
            return;
        }
        // Its greeting may have failed, which ends it.
        let Some(client) = self.clients.get(id) else {
            return;
        };
        if client.console.is_some() {
            self.serve_console(id);
            return self.client_waits(id);
        }
        while self.serve_message(id) {}
        if let Some(client) = self.clients.get(id) {
            let has_more = client.shadow.is_some() && !client.input.is_empty();
            if let Some(server) = client.server {
                self.looking.is_held |= has_more;
                self.flush_server(server);
            }
            self.client_waits(id);
            self.hand_back(id);
            self.account(id);
            self.hand_over(id);
        }
    }

    /// The next message or a part of it. `false`: there is nothing to be done now.
    fn serve_message(&mut self, id: Id) -> bool {
        let Some(client) = self.clients.get_mut(id) else {
            return false;
        };
        match client.framing.next(&client.input) {
            Next::Short => false,
            Next::Within(left) => self.rest(id, left),
            Next::Broken => {
                self.refuse(id, state::PROTOCOL_VIOLATION, "invalid message length");
                false
            }
            Next::Begins { kind, size, .. } => self.begins(id, kind, size),
        }
    }

    /// More of a message that has begun.
    fn rest(&mut self, id: Id, left: usize) -> bool {
        let client = &self.clients[id];
        let server = client.server.filter(|_| !client.discards);
        let bytes = left.min(client.input.len());
        match server {
            Some(server) if self.servers[server].output.len() >= HIGH => return false,
            // Its server is gone, and so will it be.
            None if !client.discards => return false,
            _ => {}
        }
        self.copy(id, bytes);
        let client = &mut self.clients[id];
        let piece = client.input.split_to(bytes);
        client.look_beyond(&piece);
        if let Some(server) = server {
            self.servers[server].output.extend_from_slice(&piece);
        }
        client.framing.passed(bytes);
        true
    }

    fn begins(&mut self, id: Id, kind: u8, size: usize) -> bool {
        if self.awaits_answer(id, kind, size, is_copy(kind)) {
            return false;
        }
        let client = &self.clients[id];
        if self.is_mirrored(client) && self.awaits_whole(client) {
            return false;
        }
        if kind == TERMINATE {
            self.leave(id);
            return false;
        }
        if !is_known(kind) {
            let told = format!("invalid frontend message type {kind}");
            self.refuse(id, state::PROTOCOL_VIOLATION, &told);
            return false;
        }
        // Behind its answer it is known what the unnamed statement is.
        if client.parses_there > 0 || self.awaits_names(client, kind) {
            return false;
        }
        let server = match client.server {
            Some(server) => server,
            // Data for a COPY that has failed: a server would pass over them, too.
            None if is_copy(kind) => {
                self.copy(id, size);
                self.skip(id, kind, size);
                return true;
            }
            None => match self.acquire(id) {
                Some(server) => server,
                None => return false,
            },
        };
        let to = &self.servers[server];
        if to.expected.len() >= EXPECTED_MAX {
            let told = "too many messages without an answer";
            self.refuse(id, state::LIMIT_EXCEEDED, told);
            return false;
        }
        // Its session may not become as this client has to have it: then nothing of the client's was done there.
        if to.output.len() >= HIGH || to.is_prepared() {
            return false;
        }
        self.mirror(id, server, size);
        match self.forward(id, server, kind, size) {
            Outcome::Done => true,
            Outcome::Short | Outcome::Gone => false,
        }
    }

    /// Is what names mean still open, by an earlier batch that may fail, or forget them?
    fn awaits_names(&self, client: &Client, kind: u8) -> bool {
        let Some(server) = client.server.map(|server| &self.servers[server]) else {
            return false;
        };
        if !matches!(kind, QUERY | PARSE | BIND | DESCRIBE | CLOSE) {
            return false;
        }
        let forgets = client.hint.is_some_and(|hint| hint.forgets);
        server.expected.has_end() && (server.expected.ends_names() || forgets)
    }

    fn forward(&mut self, id: Id, server: Id, kind: u8, size: usize) -> Outcome {
        self.clients[id].beyond = None;
        match kind {
            QUERY => return self.query(id, server, size),
            PARSE => return self.parse(id, server, size),
            BIND => return self.bind(id, server, size),
            DESCRIBE => return self.describe(id, server, size),
            CLOSE => return self.close_name(id, server, size),
            CALL => {
                self.clients[id].hint(Hint::of_call());
                self.servers[server].asks = 0;
                self.servers[server].expected.push_back(Expected::Query);
            }
            SYNC => self.sync(id, server),
            COPY_DONE | COPY_FAIL => self.copy_ends(id, server),
            COPY_DATA => self.copy_data(server),
            EXECUTE => {
                self.clients[id].is_open = true;
                self.servers[server].ask();
            }
            FLUSH => self.clients[id].is_open = true,
            _ => {}
        }
        self.pass(id, server, kind, size);
        Outcome::Done
    }

    /// The message as it is, as far as it is there.
    pub(super) fn pass(&mut self, id: Id, server: Id, kind: u8, size: usize) {
        let client = &mut self.clients[id];
        let bytes = size.min(client.input.len());
        let server = &mut self.servers[server];
        // Data of a COPY that has failed have no answer.
        if !is_copy(kind) || !server.expected.is_empty() || server.status != IDLE {
            server.begin();
        }
        let output = &mut server.output;
        output.extend_from_slice(&client.input[..bytes]);
        client.input.advance(bytes);
        client.framing.begun(kind, size, bytes);
        client.discards = false;
    }

    /// The message goes nowhere.
    fn skip(&mut self, id: Id, kind: u8, size: usize) {
        let client = &mut self.clients[id];
        let bytes = size.min(client.input.len());
        client.input.advance(bytes);
        client.framing.begun(kind, size, bytes);
        client.discards = true;
    }

    fn query(&mut self, id: Id, server: Id, size: usize) -> Outcome {
        let client = &mut self.clients[id];
        let there = client.input.len().min(size);
        if there < size.min(HEADER + hint::LOOKED_AT) {
            return Outcome::Short;
        }
        let end = there.min(HEADER + hint::LOOKED_AT);
        let text = &client.input[HEADER..end];
        let text = text.strip_suffix(b"\0").unwrap_or(text);
        let hint = Hint::of(text, end == size);
        let to = &self.servers[server];
        let is_ours = |expected: &Expected| matches!(expected, Expected::Own(_));
        let is_first = to.expected.iter().all(is_ours) && client.hint.is_none();
        let is_alone = is_first && to.status == IDLE && !client.is_open;
        let assigns = (is_alone && end == size).then(|| Assignment::of(text));
        let beyond = (end < size).then(|| Beyond::of(text));
        client.hint(hint);
        client.assigns = assigns.flatten();
        client.beyond = beyond;
        if there > end {
            let more = client.input.split_off(end);
            client.look_beyond(&more[..there - end]);
            client.input.unsplit(more);
        }
        // PostgreSQL forgets it, too.
        client.names.set(b"", None);
        let server_state = &mut self.servers[server];
        server_state.statements.unnamed = None;
        server_state.asks = 0;
        server_state.expected.push_back(Expected::Query);
        self.pass(id, server, QUERY, size);
        Outcome::Done
    }

    fn sync(&mut self, id: Id, server: Id) {
        let server = &mut self.servers[server];
        if server.copying == Copying::Extended {
            // The server passes over it, unless it has refused the data in front of it.
            server.unsure |= server.has_data;
        } else {
            self.clients[id].is_open = false;
            server.asks = 0;
            server.expected.push_back(Expected::Sync);
        }
    }

    fn copy_data(&mut self, server: Id) {
        let server = &mut self.servers[server];
        match server.copying {
            Copying::Simple | Copying::Extended => server.has_data = true,
            // The server has not said yet that it copies.
            Copying::No => {
                if !matches!(server.expected.back(), None | Some(Expected::CopyData)) {
                    server.expected.push_back(Expected::CopyData);
                }
            }
        }
    }

    fn copy_ends(&mut self, id: Id, server: Id) {
        let server = &mut self.servers[server];
        match server.copying {
            // Another Sync follows, which counts.
            Copying::Extended => {
                server.copying = Copying::No;
                self.clients[id].is_open = true;
            }
            Copying::Simple => server.copying = Copying::No,
            // The server has not said yet that it copies.
            Copying::No if server.expected.is_empty() => {}
            Copying::No => server.expected.push_back(Expected::CopyEnd),
        }
    }

    /// Is a message at the beginning of what has arrived that must be whole first?
    pub(super) fn awaits_whole(&self, client: &Client) -> bool {
        match client.framing.next(&client.input) {
            Next::Begins { kind, size, .. } => {
                let has_to_be = matches!(kind, PARSE | BIND | DESCRIBE | CLOSE)
                    || kind == QUERY && self.is_mirrored(client);
                has_to_be && client.input.len() < size.min(HELD_MAX)
            }
            _ => false,
        }
    }
}

impl Client {
    /// Is a message a plain request, or does one begin with it? It is looked at if all of it is there.
    pub(super) fn asks_plainly(&self, kind: u8, size: usize) -> bool {
        let Some(body) = self.input.get(HEADER..size) else {
            return false;
        };
        let is_plain = |text: &[u8]| text.len() <= hint::LOOKED_AT && Hint::of(text, true).is_plain;
        let first = text::split(body);
        match kind {
            QUERY => first.is_some_and(|(query, rest)| rest.is_empty() && is_plain(query)),
            PARSE => {
                let query = first.and_then(|(_, rest)| text::split(rest));
                query.is_some_and(|(query, _)| is_plain(query))
            }
            BIND => {
                let name = first.and_then(|(_, rest)| text::split(rest));
                let statement = name.and_then(|(name, _)| self.names.get(name));
                statement.is_some_and(|statement| statement.hint.is_plain)
            }
            _ => false,
        }
    }
}
