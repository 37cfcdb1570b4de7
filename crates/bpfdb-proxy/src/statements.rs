//! Prepared statements across servers.
//!
//! A client's name means the text of its Parse. Each text has one name on all servers, and a server
//! knows which of them it has. Before a message that uses a text, a server that lacks it gets a Parse of
//! the proxy's own, whose reply is kept back. The client's unnamed statement is one of these texts, too:
//! it may be bound after its Sync, on another server.

use std::rc::{Rc, Weak};

use bytes::{BufMut, Bytes, BytesMut};
use rustc_hash::FxHashMap;

use crate::wire::hint::Hint;
use crate::wire::reply::message;

/// Names that one client may have.
pub(crate) const NAMES_MAX: usize = 10_000;
/// No text has it.
const NO_NUMBER: u64 = u64::MAX;
/// Texts that are looked through for those that no client has any more.
const SWEEP_AT: usize = 1024;

#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) number: u64,
    /// Of its Parse, behind the name: the text with its zero, and types.
    body: Bytes,
    pub(crate) hint: Hint,
}

impl Statement {
    pub(crate) fn name(&self) -> String {
        format!("bpfdb_{}", self.number)
    }

    /// Its Parse, under this name.
    pub(crate) fn write(&self, out: &mut BytesMut, name: &str) {
        message(out, b'P', |out| {
            out.put_slice(name.as_bytes());
            out.put_u8(0);
            out.put_slice(&self.body);
        });
    }
}

/// All texts that some client has prepared.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    known: FxHashMap<Bytes, Weak<Statement>>,
    last: u64,
    sweep_at: usize,
}

impl Texts {
    /// `body`: of a Parse, behind the name.
    pub(crate) fn statement(&mut self, body: &[u8], hint: Hint) -> Rc<Statement> {
        if let Some(known) = self.known.get(body).and_then(Weak::upgrade) {
            return known;
        }
        if self.known.len() >= self.sweep_at.max(SWEEP_AT) {
            self.known.retain(|_, text| text.strong_count() > 0);
            self.sweep_at = self.known.len() * 2;
        }
        self.last += 1;
        let body = Bytes::copy_from_slice(body);
        let statement = Rc::new(Statement {
            number: self.last,
            body: body.clone(),
            hint,
        });
        self.known.insert(body, Rc::downgrade(&statement));
        statement
    }
}

/// What a client's names mean. The unnamed statement has the name of no bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientNames {
    names: FxHashMap<Bytes, Rc<Statement>>,
}

impl ClientNames {
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Rc<Statement>> {
        self.names.get(name)
    }

    /// What the name meant before.
    pub(crate) fn set(&mut self, name: &[u8], to: Option<Rc<Statement>>) -> Option<Rc<Statement>> {
        match to {
            Some(statement) => self.names.insert(Bytes::copy_from_slice(name), statement),
            None => self.names.remove(name),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Each name, and what Parse has of its statement behind the name.
    pub(crate) fn bodies(&self) -> Vec<(Bytes, Bytes)> {
        let names = self.names.iter();
        let body =
            |(name, statement): (&Bytes, &Rc<Statement>)| (name.clone(), statement.body.clone());
        names.map(body).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.names.clear();
    }
}

/// What a server has.
#[derive(Debug, Default)]
pub(crate) struct ServerStatements {
    /// When each was last used.
    used: FxHashMap<u64, u64>,
    clock: u64,
    pub(crate) unnamed: Option<u64>,
}

impl ServerStatements {
    /// Says that it is used now; has the server got it?
    pub(crate) fn touch(&mut self, number: u64) -> bool {
        self.clock += 1;
        let now = self.clock;
        self.used.get_mut(&number).map(|used| *used = now).is_some()
    }

    pub(crate) fn add(&mut self, number: u64) {
        self.clock += 1;
        self.used.insert(number, self.clock);
    }

    pub(crate) fn remove(&mut self, number: u64) {
        self.used.remove(&number);
    }

    /// There may be one without a name, of whatever text.
    pub(crate) fn doubt_unnamed(&mut self) {
        self.unnamed = Some(NO_NUMBER);
    }

    /// The one that was used longest ago, if there are more than `most`.
    pub(crate) fn oldest_beyond(&self, most: usize) -> Option<u64> {
        let oldest = || self.used.iter().min_by_key(|(_, used)| **used);
        (self.used.len() > most)
            .then(oldest)
            .flatten()
            .map(|(number, _)| *number)
    }

    pub(crate) fn clear(&mut self) {
        self.used.clear();
        self.unnamed = None;
    }

    /// All of them, away.
    pub(crate) fn drain(&mut self) -> Vec<u64> {
        self.unnamed = None;
        self.used.drain().map(|(number, _)| number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number_while_it_is_known() {
        let mut texts = Texts::default();
        let one = texts.statement(b"select 1\0\0\0", Hint::default());
        let again = texts.statement(b"select 1\0\0\0", Hint::default());
        assert_eq!(one.number, again.number);
        let other = texts.statement(b"select 2\0\0\0", Hint::default());
        assert_ne!(one.number, other.number);
        let mut out = BytesMut::new();
        one.write(&mut out, "a");
        assert_eq!(&out[..], b"P\0\0\0\x11a\0select 1\0\0\0");
    }

    #[test]
    fn the_oldest_goes_first() {
        let mut server = ServerStatements::default();
        (1..=3).for_each(|number| server.add(number));
        assert!(server.touch(1) && !server.touch(4));
        assert_eq!(
            (server.oldest_beyond(3), server.oldest_beyond(2)),
            (None, Some(2))
        );
    }
}
