//! Messages that name a prepared statement: its name becomes that of its text.

use std::rc::Rc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use postgres_protocol::message::frontend;

use super::requests::Outcome;
use super::{HELD_MAX, Proxy};
use crate::awaited::{Expected, Keeps, NOTED, Own};
use crate::io::slab::Id;
use crate::statements::{Label, NAMES_BYTES_MAX, Statement, is_own};
use crate::wire::framing::HEADER;
use crate::wire::hint::{self, Beyond, Hint};
use crate::wire::reply::state;
use crate::wire::text;

/// Names in a message are looked for in so many bytes.
const NAMES_LOOKED_AT: usize = 16 * 1024;
/// What may have to be undone is looked at after so many bytes.
const UNLOOKED_MAX: usize = 16 << 20;
/// A name that no server knows.
const NO_NAME: &str = "bpfdb_none";
/// What Describe and Close are about: a statement, and not a portal.
const OF_STATEMENT: u8 = b'S';

impl Proxy {
    /// The body of the message that begins, once all of it is there.
    fn whole(&mut self, id: Id, size: usize) -> Result<BytesMut, Outcome> {
        if size > HELD_MAX {
            let told = "a message that names a statement is too long for the proxy";
            self.refuse(id, state::LIMIT_EXCEEDED, told);
            return Err(Outcome::Gone);
        }
        let client = &mut self.clients[id];
        if client.input.len() < size {
            return Err(Outcome::Short);
        }
        let mut message = client.input.split_to(size);
        message.advance(HEADER);
        client.is_open = true;
        Ok(message)
    }

    /// What a batch says of names may have to be undone: so the texts before are kept until it is answered. Is there room
    /// for one more of so many bytes?
    fn has_room_to_undo(&mut self, id: Id, server: Id, bytes: usize) -> bool {
        let client = &mut self.clients[id];
        client.unlooked += bytes + NOTED;
        if client.unlooked < UNLOOKED_MAX {
            return true;
        }
        client.unlooked = 0;
        let kept = self.servers[server].expected.iter().map(Expected::bytes);
        if kept.sum::<usize>() + bytes <= NAMES_BYTES_MAX {
            return true;
        }
        let told = "too many prepared statements in one batch";
        self.refuse(id, state::LIMIT_EXCEEDED, told);
        false
    }

    fn malformed(&mut self, id: Id) -> Outcome {
        self.refuse(id, state::PROTOCOL_VIOLATION, "invalid message format");
        Outcome::Gone
    }

    pub(super) fn parse(&mut self, id: Id, server: Id, size: usize) -> Outcome {
        let body = match self.whole(id, size) {
            Ok(body) => body,
            Err(outcome) => return outcome,
        };
        let Some((name, rest)) = text::split(&body) else {
            return self.malformed(id);
        };
        let looked_at = text::split(rest).map_or(rest, |(query, _)| query);
        let is_whole = looked_at.len() <= hint::LOOKED_AT;
        let (first, beyond) = looked_at.split_at(looked_at.len().min(hint::LOOKED_AT));
        let mut hint = Hint::of(first, is_whole);
        hint.calls_session |= Beyond::of(first).calls_session(beyond);
        let name_length = self.clients[id].slot.map(|_| name.len());
        let statement = self.texts.statement(
            rest,
            hint,
            name_length,
            &self.clients[id].parameters.of_texts(),
        );
        let client = &mut self.clients[id];
        client.hint(hint);
        if !client.names.have_room(name, rest.len()) {
            self.refuse(id, state::LIMIT_EXCEEDED, "too many prepared statements");
            return Outcome::Gone;
        }
        let name = Bytes::copy_from_slice(name);
        let before = client.names.get(&name);
        let kept = before.map_or(0, |before| before.length()) + rest.len();
        if !self.has_room_to_undo(id, server, kept) {
            return Outcome::Gone;
        }
        let client = &self.clients[id];
        if !name.is_empty() && client.names.get(&name).is_some() {
            // PostgreSQL refuses a name that is taken; it says so itself.
            let taken = client.names.get(&name).map(Rc::clone);
            return self.parse_taken(server, taken, (name, statement));
        }
        let before = self.clients[id]
            .names
            .set(&name, Some(Rc::clone(&statement)));
        let label = statement.label();
        let name_is_empty = name.is_empty();
        let own_name = if name_is_empty {
            self.servers[server].statements.unnamed = Some(label.serial);
            String::new()
        } else {
            // With a Parse the client wants an answer, also if the server has the text.
            self.close_namesake(server, label);
            self.servers[server].statements.add(label);
            label.name()
        };
        let to = &mut self.servers[server];
        to.begin();
        statement.write(&mut to.output, &own_name);
        let at = to.ask();
        to.expected.push_back(Expected::Parse {
            label,
            at,
            unnamed: name.is_empty(),
            hidden: false,
            undo: Some((name, before)),
            instead: None,
        });
        if !name_is_empty {
            self.evict(server, label);
        }
        Outcome::Done
    }

    fn parse_taken(
        &mut self,
        server: Id,
        taken: Option<Rc<Statement>>,
        (name, new): (Bytes, Rc<Statement>),
    ) -> Outcome {
        let Some(taken) = taken else {
            return Outcome::Done;
        };
        self.ensure(server, &taken, false);
        let to = &mut self.servers[server];
        let label = taken.label();
        to.begin();
        new.write(&mut to.output, &label.name());
        let at = to.ask();
        to.expected.push_back(Expected::Parse {
            label,
            at,
            unnamed: false,
            hidden: false,
            undo: None,
            instead: Some((name, new)),
        });
        Outcome::Done
    }

    /// portal, statement, and so on.
    pub(super) fn bind(&mut self, id: Id, server: Id, size: usize) -> Outcome {
        let client = &mut self.clients[id];
        let there = client.input.len().min(size);
        let body = &client.input[HEADER..there.min(HEADER + NAMES_LOOKED_AT)];
        let split = text::split(body).and_then(|(portal, rest)| {
            let (name, _) = text::split(rest)?;
            Some((portal.len() + 1, Bytes::copy_from_slice(name)))
        });
        let Some((at, name)) = split else {
            if there < size.min(HEADER + NAMES_LOOKED_AT) {
                return Outcome::Short;
            }
            return self.malformed(id);
        };
        client.is_open = true;
        let statement = client.names.get(&name);
        let has_portal = statement.is_some_and(|statement| !statement.hint.is_plain);
        let own_name = self.name_on(id, server, &name);
        self.servers[server].has_portal |= has_portal;
        self.servers[server].ask();
        self.rename(id, server, b'B', size, at, name.len(), &own_name);
        Outcome::Done
    }

    pub(super) fn describe(&mut self, id: Id, server: Id, size: usize) -> Outcome {
        match self.named(id, size) {
            Ok(Some(name)) => {
                let own_name = self.name_on(id, server, &name);
                self.rename(id, server, b'D', size, 1, name.len(), &own_name);
            }
            Ok(None) => self.pass(id, server, b'D', size),
            Err(outcome) => return outcome,
        }
        self.servers[server].ask();
        Outcome::Done
    }

    pub(super) fn close_name(&mut self, id: Id, server: Id, size: usize) -> Outcome {
        let name = match self.named(id, size) {
            Ok(name) => name,
            Err(outcome) => return outcome,
        };
        let mut undo = None;
        let mut keeps = Keeps::Nothing;
        if let Some(name) = name {
            let before = self.clients[id].names.get(&name);
            let kept = before.map_or(0, |before| before.length());
            if !self.has_room_to_undo(id, server, kept) {
                return Outcome::Gone;
            }
            let before = self.clients[id].names.set(&name, None);
            undo = before.map(|before| (name.clone(), before));
            // The server keeps the text for others, and says yes to what it does not know.
            let own_name = if name.is_empty() { "" } else { NO_NAME };
            if name.is_empty() {
                keeps = Keeps::Unnamed;
                self.servers[server].statements.unnamed = None;
            }
            self.rename(id, server, b'C', size, 1, name.len(), own_name);
        } else {
            self.pass(id, server, b'C', size);
        }
        let expected = Expected::Close {
            hidden: false,
            undo,
            keeps,
        };
        self.servers[server].ask();
        self.servers[server].expected.push_back(expected);
        Outcome::Done
    }

    /// The statement that a Describe or a Close is about; `None`: it is about a portal.
    fn named(&mut self, id: Id, size: usize) -> Result<Option<Bytes>, Outcome> {
        let client = &mut self.clients[id];
        if size <= HEADER + NAMES_LOOKED_AT && client.input.len() < size {
            return Err(Outcome::Short);
        }
        let there = client.input.len().min(size);
        client.is_open = true;
        let body = &client.input[HEADER..there];
        match (body.first(), text::split(body.get(1..).unwrap_or_default())) {
            (Some(&OF_STATEMENT), Some((name, _))) => Ok(Some(Bytes::copy_from_slice(name))),
            (Some(_), Some(_)) => Ok(None),
            _ => Err(self.malformed(id)),
        }
    }

    /// The server's name for what the client's means; the server has it then. A name that means nothing
    /// stays, so that the server says so.
    fn name_on(&mut self, id: Id, server: Id, name: &[u8]) -> String {
        let Some(statement) = self.clients[id].names.get(name).map(Rc::clone) else {
            if name.is_empty() && self.servers[server].statements.unnamed.take().is_some() {
                // Another client's.
                let to = &mut self.servers[server];
                let _ = frontend::close(b'S', "", &mut to.output);
                to.ask();
                to.expected.push_back(Expected::Close {
                    hidden: true,
                    undo: None,
                    keeps: Keeps::Unnamed,
                });
            }
            // A name of the proxy's own would be another client's statement.
            return if is_own(name) {
                NO_NAME.to_owned()
            } else {
                text::shown(name)
            };
        };
        self.clients[id].hint(statement.hint);
        self.ensure(server, &statement, name.is_empty());
        if name.is_empty() {
            String::new()
        } else {
            statement.label().name()
        }
    }

    /// Has the server know the text.
    fn ensure(&mut self, id: Id, statement: &Statement, unnamed: bool) {
        let label = statement.label();
        let statements = &mut self.servers[id].statements;
        let name = if unnamed {
            if statements.unnamed == Some(label.serial) {
                return;
            }
            statements.unnamed = Some(label.serial);
            String::new()
        } else {
            if statements.touch(label) {
                return;
            }
            self.close_namesake(id, label);
            self.servers[id].statements.add(label);
            label.name()
        };
        let server = &mut self.servers[id];
        statement.write(&mut server.output, &name);
        let at = server.ask();
        server.expected.push_back(Expected::Parse {
            label,
            at,
            unnamed,
            hidden: true,
            undo: None,
            instead: None,
        });
        if !unnamed {
            self.evict(id, label);
        }
    }

    /// A server does not keep any number of them.
    fn evict(&mut self, id: Id, newest: Label) {
        let most = self.settings.max_prepared_statements.max(1);
        while let Some(oldest) = (self.servers[id].statements).oldest_beyond(most, newest) {
            self.servers[id].statements.remove(oldest);
            self.close_own(id, &oldest.name(), Keeps::Own(oldest));
        }
    }

    /// What it has is not known any more: it is to have nothing.
    pub(super) fn forget_statements(&mut self, id: Id) {
        for label in self.servers[id].statements.drain() {
            self.close_own(id, &label.name(), Keeps::Own(label));
        }
        if !self.servers[id].expected.is_empty() {
            // Without one the replies would be awaited for ever.
            let server = &mut self.servers[id];
            frontend::sync(&mut server.output);
            server.asks = 0;
            server.expected.push_back(Expected::Own(Own::Parameters));
            self.flush_server(id);
        }
    }

    /// In front of a Parse: the name is free on the server then, whatever it has had, and by whatever that was made.
    fn close_namesake(&mut self, id: Id, label: Label) {
        let statements = &mut self.servers[id].statements;
        let has = statements.touch(label).then_some(label);
        let other = has.or_else(|| statements.namesake(label));
        if let Some(other) = other {
            statements.remove(other);
        }
        let keeps = other.map_or(Keeps::Nothing, Keeps::Own);
        self.close_own(id, &label.name(), keeps);
    }

    fn close_own(&mut self, id: Id, name: &str, keeps: Keeps) {
        let server = &mut self.servers[id];
        if frontend::close(OF_STATEMENT, name, &mut server.output).is_ok() {
            server.ask();
            server.expected.push_back(Expected::Close {
                hidden: true,
                undo: None,
                keeps,
            });
        }
    }

    /// Passes a message on with another name at `at` of its body, for one of `len` bytes.
    #[expect(clippy::too_many_arguments, reason = "all of one message")]
    fn rename(
        &mut self,
        id: Id,
        server: Id,
        kind: u8,
        size: usize,
        at: usize,
        len: usize,
        name: &str,
    ) {
        let client = &mut self.clients[id];
        let server = &mut self.servers[server];
        server.begin();
        let output = &mut server.output;
        let head = client.input.split_to(HEADER + at);
        client.input.advance(len);
        output.put_u8(kind);
        output.put_u32((size - 1 - len + name.len()) as u32);
        output.extend_from_slice(&head[HEADER..]);
        output.extend_from_slice(name.as_bytes());
        let rest = size - HEADER - at - len;
        let bytes = rest.min(client.input.len());
        output.extend_from_slice(&client.input.split_to(bytes));
        client.framing.begun(kind, rest, bytes);
        client.discards = false;
    }
}
