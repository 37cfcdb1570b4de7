//! What a reply says of its session: statements that there are, parameters, state that the client has left
//! in it, an error, a COPY.

use std::rc::Rc;

use super::Proxy;
use super::pools::has_connect_query;
use crate::awaited::{Expected, Keeps};
use crate::client::Client;
use crate::io::slab::Id;
use crate::server::{Copying, Server};
use crate::wire::{reply, text};

impl Proxy {
    /// The answer to a Parse or a Close; is it to one of ours?
    pub(super) fn made(&mut self, id: Id) -> bool {
        let expected = &mut self.servers[id].expected;
        match expected.front() {
            Some(Expected::Parse { hidden, .. } | Expected::Close { hidden, .. }) => {
                let hidden = *hidden;
                let answered = expected.pop_front();
                self.done_instead(id, answered);
                hidden
            }
            _ => false,
        }
    }

    /// A Parse of a name that was taken when it was sent, and is not any more.
    fn done_instead(&mut self, id: Id, answered: Option<Expected>) {
        if let Some(Expected::Parse {
            label,
            instead: Some((name, statement)),
            ..
        }) = answered
        {
            let server = &mut self.servers[id];
            // It has the new text under the name of the one before.
            server.statements.remove(label);
            if let Some(client) = server
                .client
                .and_then(|client| self.clients.get_mut(client))
            {
                client.names.set(&name, Some(statement));
            }
        }
    }

    /// A tag says what was done.
    pub(super) fn complete(&mut self, id: Id, size: usize, body: usize) {
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
                let discards = tag == b"DISCARD ALL";
                forget_names(server, client);
                if discards {
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
    pub(super) fn row(&mut self, id: Id, size: usize, body: usize) {
        let server = &mut self.servers[id];
        if let Some(lookup) = &mut server.lookup
            && lookup.found.is_none()
        {
            let secret = reply::value(&server.input[body..size], 1);
            lookup.found = Some(secret.map_or_else(String::new, text::shown));
        }
    }

    pub(super) fn parameter(&mut self, id: Id, size: usize, body: usize, shown: bool) {
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
    pub(super) fn failed(&mut self, id: Id) {
        let server = &mut self.servers[id];
        if let Some(lookup) = &mut server.lookup {
            lookup.has_failed = true;
        } else if let Some(Expected::Own(own)) = server.expected.first_end() {
            server.refused = Some(*own);
        } else if let Some(client) = server.client.and_then(|client| self.clients.get(client))
            && let Some(shadow) = &client.shadow
            && let Some(mirror) = self.mirrors.get_mut(&shadow.database)
        {
            mirror.errors += 1;
        }
        let server = &mut self.servers[id];
        server.copying = Copying::No;
        // Before it looks at a text without a name the server forgets the one before.
        if let Some(Expected::Parse {
            unnamed: true,
            at,
            undo: Some((_, before)),
            ..
        }) = server.expected.front_mut()
            && *at == server.answers
        {
            *before = None;
        }
        self.pass_over(id);
    }

    /// What was sent in front of the next Sync, and has had no answer, has not been done.
    pub(super) fn pass_over(&mut self, id: Id) {
        let server = &mut self.servers[id];
        let mut client = server
            .client
            .and_then(|client| self.clients.get_mut(client));
        // What was done last is undone first.
        for expected in server.expected.take_batch().into_iter().rev() {
            match expected {
                Expected::Parse {
                    label,
                    unnamed,
                    hidden,
                    undo,
                    ..
                } => {
                    if unnamed {
                        server.statements.doubt_unnamed();
                    } else if hidden || undo.is_some() {
                        server.statements.remove(label);
                    }
                    if let (Some((name, before)), Some(client)) = (undo, client.as_mut()) {
                        client.names.set(&name, before);
                    }
                }
                Expected::Close { undo, keeps, .. } => {
                    match keeps {
                        Keeps::Nothing => {}
                        Keeps::Unnamed => server.statements.doubt_unnamed(),
                        Keeps::Own(label) => server.statements.put_back(label),
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
    pub(super) fn copies(&mut self, id: Id) {
        let server = &mut self.servers[id];
        let by_query = matches!(server.expected.first_end(), Some(Expected::Query));
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
}

/// A client has ended all statements of its session: all that was parsed before.
fn forget_names(server: &mut Server, client: &mut Client) {
    let later = |expected: &Expected| match expected {
        Expected::Parse {
            undo: Some((name, _)),
            ..
        } => Some((name.clone(), client.names.get(name).map(Rc::clone)?)),
        _ => None,
    };
    let later: Vec<_> = server.expected.iter().filter_map(later).collect();
    // The one without a name stays.
    let unnamed = client.names.get(b"").map(Rc::clone);
    server.statements.clear();
    client.names.clear();
    client.names.set(b"", unnamed);
    for (name, statement) in later {
        client.names.set(&name, Some(statement));
    }
    for expected in server.expected.iter_mut() {
        match expected {
            Expected::Parse {
                label,
                unnamed: false,
                hidden,
                undo,
                ..
            } => {
                if *hidden || undo.is_some() {
                    server.statements.add(*label);
                }
                if let Some((_, before)) = undo {
                    *before = None;
                }
            }
            Expected::Close { undo, keeps, .. } => (*undo, *keeps) = (None, Keeps::Nothing),
            _ => {}
        }
    }
}
