//! From a server to its client; when a transaction is over.

use bytes::Buf;

use super::pools::has_connect_query;
use super::{HIGH, Proxy, Work};
use crate::io::slab::Id;
use crate::server::{Copying, Expected, IDLE, Keeps, Own, Server, Stage};
use crate::settings::PoolMode;
use crate::traffic::{self, Traffic};
use crate::wire::framing::Next;
use crate::wire::reply::{self, state};
use crate::wire::text;

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
        self.server_waits(id);
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
        let own = match first_ready(&server.expected) {
            Some(Expected::Own(own)) => Some(*own),
            _ => None,
        };
        let mut shown = own.is_none();
        let mut over = false;
        match kind {
            PARSED | CLOSED => shown &= !self.made(id),
            COMPLETE if shown => self.complete(id, size, body),
            PARAMETER => self.parameter(id, size, body, shown),
            ERROR => self.failed(id),
            ROW => self.row(id, size, body),
            COPY_IN => self.copies(id),
            READY => {
                let status = server.input[body];
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
            && own.is_some()
            && let Some(client) = self.servers[id].client
        {
            // It waits for that with what it has sent since.
            self.work.push_back(Work::Client(client));
        }
        true
    }

    /// Bytes of a server to its client, if it has one and they are for it.
    fn bring(&mut self, id: Id, bytes: usize, shown: bool) {
        let server = &mut self.servers[id];
        let client = server.client.filter(|_| shown);
        match client.and_then(|client| self.clients.get_mut(client)) {
            Some(client) => client
                .output
                .extend_from_slice(&server.input.split_to(bytes)),
            None => server.input.advance(bytes),
        }
    }

    /// The answer to a Parse or a Close; is it to one of ours?
    fn made(&mut self, id: Id) -> bool {
        let expected = &mut self.servers[id].expected;
        match expected.front() {
            Some(Expected::Parse { hidden, .. } | Expected::Close { hidden, .. }) => {
                let hidden = *hidden;
                expected.pop_front();
                hidden
            }
            _ => false,
        }
    }

    /// A tag says what was done.
    fn complete(&mut self, id: Id, size: usize, body: usize) {
        let server = &mut self.servers[id];
        let Some(client) = server
            .client
            .and_then(|client| self.clients.get_mut(client))
        else {
            return;
        };
        let begins_by_query = has_connect_query(&self.pools, server);
        let hint = client.hint.unwrap_or_default();
        let tag = text::split(&server.input[body..size]).map_or(&b""[..], |(tag, _)| tag);
        match tag {
            b"SET" => server.has_set |= !hint.set_is_known,
            b"DISCARD ALL" | b"DEALLOCATE ALL" => {
                server.statements.clear();
                client.names.clear();
                if tag == b"DISCARD ALL" {
                    // What the database has each session begin with is gone, too.
                    client.pinned = begins_by_query;
                    client.parameters.forget_followed();
                    server.parameters.forget_followed();
                }
            }
            // It may be about one of those.
            b"RESET" => {
                client.pinned |= begins_by_query || client.parameters.followed().next().is_some();
            }
            // It may be one of the proxy's own, by its name.
            b"DEALLOCATE" if hint.names_ours => {
                client.pinned = true;
                server.unsure = true;
            }
            tag => client.pinned |= hint.leaves_state(tag),
        }
    }

    /// The first row of the answer to a question about a password.
    fn row(&mut self, id: Id, size: usize, body: usize) {
        let server = &mut self.servers[id];
        if let Some(lookup) = &mut server.lookup
            && lookup.found.is_none()
        {
            let secret = reply::value(&server.input[body..size], 1);
            lookup.found = Some(secret.map_or_else(String::new, text::shown));
        }
    }

    fn parameter(&mut self, id: Id, size: usize, body: usize, shown: bool) {
        let server = &mut self.servers[id];
        let pair = text::split(&server.input[body..size])
            .and_then(|(name, rest)| Some((text::shown(name), text::shown(text::split(rest)?.0))));
        let Some((name, value)) = pair else {
            return;
        };
        server.parameters.set(&name, &value);
        if name == "in_hot_standby" {
            let target = self.pools[server.pool as usize].database.target;
            let read_only = server.parameters.get("default_transaction_read_only");
            // It was promoted, and may not be meant any more.
            server.retires |= !target.fits(Some(&value), read_only);
            self.pools[server.pool as usize].retires |= server.retires;
        }
        if shown
            && let Some(client) = server
                .client
                .and_then(|client| self.clients.get_mut(client))
        {
            client.parameters.set(&name, &value);
        }
    }

    /// After an error the server passes over everything up to the next Sync.
    fn failed(&mut self, id: Id) {
        let server = &mut self.servers[id];
        if let Some(lookup) = &mut server.lookup {
            lookup.has_failed = true;
        } else if let Some(Expected::Own(own)) = first_ready(&server.expected) {
            server.refused = Some(*own);
        } else if let Some(client) = server.client.and_then(|client| self.clients.get(client))
            && let Some(shadow) = &client.shadow
            && let Some(mirror) = self.mirrors.get_mut(&shadow.database)
        {
            mirror.errors += 1;
        }
        self.servers[id].copying = Copying::No;
        self.pass_over(id);
    }

    /// What was sent in front of the next Sync, and has had no answer, has not been done.
    fn pass_over(&mut self, id: Id) {
        let server = &mut self.servers[id];
        let mut client = server
            .client
            .and_then(|client| self.clients.get_mut(client));
        let ends = |expected: &Expected| {
            matches!(
                expected,
                Expected::Query | Expected::Sync | Expected::Own(_)
            )
        };
        let passed_over = server.expected.iter().position(ends);
        let passed_over = passed_over.unwrap_or(server.expected.len());
        // What was done last is undone first.
        for expected in server.expected.drain(..passed_over).rev() {
            match expected {
                Expected::Parse {
                    number,
                    unnamed,
                    hidden,
                    undo,
                } => {
                    if unnamed {
                        server.statements.doubt_unnamed();
                    } else if hidden || undo.is_some() {
                        server.statements.remove(number);
                    }
                    if let (Some((name, before)), Some(client)) = (undo, client.as_mut()) {
                        client.names.set(&name, before);
                    }
                }
                Expected::Close { undo, keeps, .. } => {
                    match keeps {
                        Keeps::Nothing => {}
                        Keeps::Unnamed => server.statements.doubt_unnamed(),
                        Keeps::Own(number) => server.statements.add(number),
                    }
                    if let (Some((name, before)), Some(client)) = (undo, client.as_mut()) {
                        client.names.set(&name, Some(before));
                    }
                }
                _ => {}
            }
        }
    }

    /// The server waits for data. Each Sync before the end of the data it ignores.
    fn copies(&mut self, id: Id) {
        let server = &mut self.servers[id];
        let by_query = matches!(first_ready(&server.expected), Some(Expected::Query));
        server.copying = if by_query {
            Copying::Simple
        } else {
            Copying::Extended
        };
        server.has_data = false;
        let (mut ended, mut has_data, mut unsure) = (false, false, false);
        server.expected.retain(|expected| match expected {
            Expected::CopyEnd if !ended => {
                ended = true;
                false
            }
            Expected::CopyData if !ended => {
                has_data = true;
                false
            }
            // Behind data that the server has refused it counts.
            Expected::Sync if !ended && !by_query => {
                unsure |= has_data;
                false
            }
            _ => true,
        });
        server.has_data = has_data;
        server.unsure |= unsure;
        if ended {
            server.copying = Copying::No;
        } else if !by_query
            && let Some(client) = server
                .client
                .and_then(|client| self.clients.get_mut(client))
        {
            // Until the Sync behind its data.
            client.is_open = true;
        }
    }

    /// ReadyForQuery: is nothing more to come?
    fn ready(&mut self, id: Id, status: u8) -> bool {
        let server = &mut self.servers[id];
        let is_ours = matches!(first_ready(&server.expected), Some(Expected::Own(_)));
        if server.client.is_some() && !is_ours {
            let ended = count(server, status);
            self.pools[server.pool as usize].traffic += ended;
        }
        server.status = status;
        server.copying = Copying::No;
        if let Some(client) = server
            .client
            .and_then(|client| self.clients.get_mut(client))
        {
            client.answered += 1;
        }
        // Behind an error that came before it was sent.
        self.pass_over(id);
        let server = &mut self.servers[id];
        server.expected.pop_front();
        // The data of a COPY that has failed before it began, and their end.
        while matches!(
            server.expected.front(),
            Some(Expected::CopyEnd | Expected::CopyData)
        ) {
            server.expected.pop_front();
        }
        server.expected.is_empty()
    }

    /// All that was sent has its replies; whose the server is now. `own`: the last of it was this one of the proxy's.
    fn settled(&mut self, id: Id, own: Option<Own>) {
        let server = &mut self.servers[id];
        // RESET gives a parameter the value that it had before that query.
        let may_follow = !has_connect_query(&self.pools, server);
        let has_set = server.status == IDLE && std::mem::take(&mut server.has_set);
        if let Some(client) = server
            .client
            .and_then(|client| self.clients.get_mut(client))
        {
            let mut assigns = None;
            // What the client has sent of its next request has texts, too, and their replies are to come.
            if own.is_some() {
                client.unfit = 0;
            } else if !client.is_open {
                client.pinned |= client.hint.take().is_some_and(|hint| hint.calls_session);
                assigns = client.assigns.take();
            }
            if has_set {
                match assigns {
                    Some(assignment) if may_follow => {
                        server.parameters.follow(assignment.clone());
                        client.parameters.follow(assignment);
                    }
                    _ => client.pinned = true,
                }
            }
        }
        match server.client {
            // What a client has left is put right.
            None if server.speaks => {}
            None if server.lookup.is_some() => {
                let lookup = server.lookup.take();
                self.give(id);
                if let Some(lookup) = lookup {
                    self.looked_up(lookup);
                }
            }
            None => match own {
                Some(Own::Reset) => self.was_reset(id),
                Some(_) => self.give(id),
                None => self.close_server(id),
            },
            Some(client) => {
                self.work.push_back(Work::Client(client));
                // Behind a statement of ours it uses the server for what it has sent meanwhile.
                if own.is_none() {
                    self.over(id);
                    // In this order: it may be quicker with its next request than we are.
                    self.hand_back(client);
                }
                self.flush_client(client);
            }
        }
    }

    /// Gives a server on if its client's transaction is over, and may.
    pub(super) fn over(&mut self, id: Id) {
        let server = &self.servers[id];
        let Some(client) = server.client.and_then(|client| self.clients.get(client)) else {
            return;
        };
        if !server.expected.is_empty() || !client.is_between() {
            return;
        }
        if client.mode == PoolMode::Statement && server.status != IDLE {
            let client = server.client;
            self.close_server(id);
            if let Some(client) = client {
                let told = "transaction blocks are not allowed in statement pooling mode";
                self.refuse(client, state::PROTOCOL_VIOLATION, told);
            }
            return;
        }
        let keeps = client.pinned || client.mode == PoolMode::Session;
        if server.status == IDLE && !keeps {
            self.release(id);
        }
    }
}

/// A request has its ReadyForQuery.
fn count(server: &mut Server, status: u8) -> Traffic {
    let now = traffic::now();
    let since = |begun: u64| {
        if begun == 0 {
            0
        } else {
            now.saturating_sub(begun)
        }
    };
    let mut ended = Traffic {
        queries: 1,
        query_time: since(server.asked),
        ..Traffic::default()
    };
    if status == IDLE {
        ended.transactions = 1;
        ended.transaction_time = since(server.begun);
    }
    // What was sent behind it begins now.
    let next = if server.expected.len() > 1 { now } else { 0 };
    server.asked = next;
    if status == IDLE {
        server.begun = next;
    }
    ended
}

/// The next of those that end with ReadyForQuery.
fn first_ready(expected: &std::collections::VecDeque<Expected>) -> Option<&Expected> {
    let ends = |expected: &&Expected| {
        matches!(
            expected,
            Expected::Query | Expected::Sync | Expected::Own(_)
        )
    };
    expected.iter().find(ends)
}
