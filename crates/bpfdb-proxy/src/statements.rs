//! Prepared statements across servers.
//!
//! A client's name means the text of its Parse. Each text has one name on all servers, and a server
//! knows which of them it has. Before a message that uses a text, a server that lacks it gets a Parse of
//! the proxy's own, whose reply is kept back. The client's unnamed statement is one of these texts, too:
//! it may be bound after its Sync, on another server.

//!
//! A name on the servers that the kernel may write in the place of a client's has a number, and the length of
//! the client's ([`Number`]). So a text has one name for each length of names that clients have for it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use bytes::{BufMut, Bytes, BytesMut};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::abi;
use crate::kernel::shared::{Present, Shared};
use crate::wire::hint::Hint;
use crate::wire::reply::message;

/// Names that one client may have.
const NAMES_MAX: usize = 10_000;
/// Of a client's name that the kernel may know, bytes: shorter than this.
const NAME_MAX: usize = abi::BPFDB_PROXY_NAME_MAX as usize;
/// No text has it.
const NO_NUMBER: u64 = u64::MAX;
/// What one client's names may mean, bytes: a server keeps `max_prepared_statements`, the proxy all of them.
pub(crate) const NAMES_BYTES_MAX: usize = 64 << 20;
/// Texts that are looked through for those that no client has any more, and so many bytes of them.
const SWEEP_AT: usize = 1024;
const SWEEP_BYTES: usize = 16 << 20;
/// Numbers of one digit are for names that have room for no more.
const ONE_DIGIT: u32 = 1 << abi::BPFDB_PROXY_DIGIT_BITS;
/// Numbers behind those are for names of one byte.
const SINGLES_END: u32 = ONE_DIGIT + SINGLES as u32;
/// Without the zero of its text.
const SINGLES: usize = abi::BPFDB_PROXY_SINGLES.len() - 1;
/// Mark and digit.
const SHORT: usize = 2;

/// By which the kernel knows a statement, and its name on all servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Number {
    pub(crate) number: u32,
    /// Of the name, bytes.
    length: usize,
}

impl Number {
    fn name(self) -> String {
        if self.length == 1 {
            let single = abi::BPFDB_PROXY_SINGLES[(self.number - ONE_DIGIT) as usize];
            return char::from(single).to_string();
        }
        let mut name = String::from(char::from(abi::BPFDB_PROXY_MARK));
        let mut rest = self.number;
        while name.len() < self.length {
            let digit = abi::BPFDB_PROXY_DIGITS[(rest % ONE_DIGIT) as usize];
            name.push(char::from(digit));
            rest /= ONE_DIGIT;
        }
        name
    }
}

/// What tells statements apart on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    /// No other one ever has it.
    pub(crate) serial: u64,
    pub(crate) number: Option<Number>,
}

impl Label {
    /// On all servers.
    pub(crate) fn name(self) -> String {
        self.number
            .map_or_else(|| format!("bpfdb_{}", self.serial), Number::name)
    }
}

/// May a server have a statement of the proxy's own by this name?
pub(crate) fn is_own(name: &[u8]) -> bool {
    let is_single = name.len() == 1 && abi::BPFDB_PROXY_SINGLES.contains(&name[0]);
    is_single || name.starts_with(b"bpfdb_") || name.first() == Some(&abi::BPFDB_PROXY_MARK)
}

/// Numbers that no statement has.
#[derive(Debug)]
struct Free {
    single: VecDeque<u32>,
    short: VecDeque<u32>,
    long: VecDeque<u32>,
}

impl Free {
    fn all() -> Self {
        Self {
            single: (ONE_DIGIT..SINGLES_END).collect(),
            short: (0..ONE_DIGIT).collect(),
            long: (SINGLES_END..abi::BPFDB_PROXY_STATEMENTS).collect(),
        }
    }

    fn of(&mut self, length: usize) -> Option<&mut VecDeque<u32>> {
        match length {
            1 => Some(&mut self.single),
            SHORT => Some(&mut self.short),
            length if (SHORT..NAME_MAX).contains(&length) => Some(&mut self.long),
            _ => None,
        }
    }
}

/// A number while a statement has it.
#[derive(Debug)]
struct Held {
    number: Number,
    free: Rc<RefCell<Free>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(free) = self.free.borrow_mut().of(self.number.length) {
            free.push_back(self.number.number);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Statement {
    serial: u64,
    held: Option<Held>,
    /// Of its Parse, behind the name: the text with its zero, and types.
    body: Bytes,
    pub(crate) hint: Hint,
}

impl Statement {
    pub(crate) fn label(&self) -> Label {
        Label {
            serial: self.serial,
            number: self.held.as_ref().map(|held| held.number),
        }
    }

    /// Of its text, bytes.
    pub(crate) fn length(&self) -> usize {
        self.body.len()
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
    /// By the text, and behind it the length of its name, 0 without a number, and the parameters by which it is read.
    known: FxHashMap<Bytes, Weak<Statement>>,
    /// Of the keys, those included that no client has any more.
    bytes: usize,
    last: u64,
    sweep_at: usize,
    sweep_bytes: usize,
    /// `None`: the kernel knows no statements.
    kernel: Option<(Rc<Shared>, Rc<RefCell<Free>>)>,
}

impl Texts {
    pub(crate) fn new(kernel: Option<Rc<Shared>>) -> Self {
        let kernel = kernel.map(|shared| (shared, Rc::new(RefCell::new(Free::all()))));
        Self {
            kernel,
            ..Self::default()
        }
    }

    /// `body`: of a Parse, behind the name. `name_length`: of the client's name, if the kernel may know it. `read_as`:
    /// the parameters that say what the text means.
    pub(crate) fn statement(
        &mut self,
        body: &[u8],
        hint: Hint,
        name_length: Option<usize>,
        read_as: &str,
    ) -> Rc<Statement> {
        let length = name_length.filter(|length| {
            (1..NAME_MAX).contains(length) && hint.is_plain && self.kernel.is_some()
        });
        let mut key = BytesMut::with_capacity(body.len() + 1 + read_as.len());
        key.put_slice(body);
        key.put_u8(length.unwrap_or(0) as u8);
        key.put_slice(read_as.as_bytes());
        let key = key.freeze();
        if let Some(known) = self.known.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        self.forget(&key);
        if self.known.len() >= self.sweep_at.max(SWEEP_AT)
            || self.bytes >= self.sweep_bytes.max(SWEEP_BYTES)
        {
            self.sweep();
        }
        self.last += 1;
        let statement = Rc::new(Statement {
            serial: self.last,
            held: length.and_then(|length| self.hold(length)),
            body: key.slice(..body.len()),
            hint,
        });
        self.bytes += key.len();
        self.known.insert(key, Rc::downgrade(&statement));
        statement
    }

    /// Of one that nobody has any more the bytes go, too: a map keeps the key that it has.
    fn forget(&mut self, key: &Bytes) {
        if self.known.remove(key).is_some() {
            self.bytes -= key.len();
        }
    }

    fn sweep(&mut self) {
        self.known.retain(|_, text| text.strong_count() > 0);
        self.bytes = self.known.keys().map(Bytes::len).sum();
        (self.sweep_at, self.sweep_bytes) = (self.known.len() * 2, self.bytes * 2);
    }

    fn hold(&self, length: usize) -> Option<Held> {
        let (shared, free) = self.kernel.as_ref()?;
        let number = free.borrow_mut().of(length)?.pop_front()?;
        shared.forget_statement(number);
        Some(Held {
            number: Number { number, length },
            free: Rc::clone(free),
        })
    }
}

/// PostgreSQL tells names apart by so many bytes (NAMEDATALEN, and a zero); what is behind them counts for nothing.
const NAME_COUNTS: usize = 63;

/// What of a client's name tells it from others.
fn counted(name: &[u8]) -> &[u8] {
    &name[..name.len().min(NAME_COUNTS)]
}

/// What a client's names mean. The unnamed statement has the name of no bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientNames {
    names: FxHashMap<Bytes, Rc<Statement>>,
    /// Of all that they mean, each counted for itself.
    bytes: usize,
    /// Those that the kernel was told of, and those of them and of `names` that it is to be told of.
    told: FxHashSet<Bytes>,
    changed: FxHashSet<Bytes>,
}

impl ClientNames {
    /// As they are, without what the kernel knows of them.
    pub(crate) fn copy(&self) -> Self {
        Self {
            names: self.names.clone(),
            bytes: self.bytes,
            ..Self::default()
        }
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&Rc<Statement>> {
        self.names.get(counted(name))
    }

    /// What the name meant before.
    pub(crate) fn set(&mut self, name: &[u8], to: Option<Rc<Statement>>) -> Option<Rc<Statement>> {
        let name = Bytes::copy_from_slice(counted(name));
        let is_known = to.is_some() || self.told.contains(&name);
        if is_known && !name.is_empty() {
            self.changed.insert(name.clone());
        } else {
            self.changed.remove(&name);
        }
        let before = match to {
            Some(statement) => {
                self.bytes += statement.body.len();
                self.names.insert(name, statement)
            }
            None => self.names.remove(&name),
        };
        self.bytes -= before.as_ref().map_or(0, |before| before.body.len());
        before
    }

    /// May a name mean a text of so many bytes, too?
    pub(crate) fn have_room(&self, name: &[u8], bytes: usize) -> bool {
        let before = self.get(name);
        let others = self.bytes - before.map_or(0, |before| before.body.len());
        let is_one_more = before.is_none();
        others + bytes <= NAMES_BYTES_MAX && !(is_one_more && self.names.len() >= NAMES_MAX)
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
        self.bytes = 0;
        self.changed.clone_from(&self.told);
    }

    /// What the kernel is to be told: a name, and the number that it means; `None`: none any more. `tell`: has it been
    /// told?
    pub(crate) fn tell(&mut self, mut tell: impl FnMut(&[u8], Option<u32>) -> bool) {
        for name in self.changed.drain() {
            let statement = self.names.get(&name);
            let number = statement.and_then(|statement| statement.label().number);
            match number {
                Some(number) if tell(&name, Some(number.number)) => {
                    self.told.insert(name);
                }
                _ if self.told.remove(&name) => {
                    tell(&name, None);
                }
                _ => {}
            }
        }
    }
}

/// A statement that a server has.
#[derive(Debug)]
struct Used {
    label: Label,
    at: u64,
}

/// What a server has.
#[derive(Debug, Default)]
pub(crate) struct ServerStatements {
    /// By serial; when each was last used.
    used: FxHashMap<u64, Used>,
    /// Which of them has the name of a number, by its serial.
    named: FxHashMap<Number, u64>,
    clock: u64,
    pub(crate) unnamed: Option<u64>,
    /// What the kernel knows of it.
    pub(crate) present: Option<Present>,
}

impl ServerStatements {
    /// Says that one is used now, which some client has; has the server got it?
    pub(crate) fn touch(&mut self, label: Label) -> bool {
        self.clock += 1;
        let now = self.clock;
        let used = self.used.get_mut(&label.serial);
        let has = used.map(|used| used.at = now).is_some();
        if has {
            self.show(label, true);
        }
        has
    }

    /// It gets one, which some client has.
    pub(crate) fn add(&mut self, label: Label) {
        self.put_back(label);
        self.show(label, true);
    }

    /// It still has one, which may be no client's any more.
    pub(crate) fn put_back(&mut self, label: Label) {
        self.clock += 1;
        let at = self.clock;
        self.used.insert(label.serial, Used { label, at });
        if let Some(number) = label.number {
            self.named.insert(number, label.serial);
        }
        self.show(label, false);
    }

    pub(crate) fn remove(&mut self, label: Label) {
        self.used.remove(&label.serial);
        if let Some(number) = label.number
            && self.named.get(&number) == Some(&label.serial)
        {
            self.named.remove(&number);
        }
        self.show(label, false);
    }

    /// The one that has the name of this one, and is another.
    pub(crate) fn namesake(&self, label: Label) -> Option<Label> {
        let serial = self.named.get(&label.number?)?;
        let other = self.used.get(serial)?.label;
        (other != label).then_some(other)
    }

    fn show(&self, label: Label, is_there: bool) {
        if let (Some(present), Some(number)) = (&self.present, label.number) {
            present.set(number.number, is_there);
        }
    }

    /// There may be one without a name, of whatever text.
    pub(crate) fn doubt_unnamed(&mut self) {
        self.unnamed = Some(NO_NUMBER);
    }

    /// The one that was used longest ago and is not `newest`, if there are more than `most`. Those that the kernel
    /// has used since it was looked at last count as used now.
    pub(crate) fn oldest_beyond(&mut self, most: usize, newest: Label) -> Option<Label> {
        while self.used.len() > most {
            let others = self.used.values_mut();
            let others = others.filter(|used| used.label != newest);
            let oldest = others.min_by_key(|used| used.at)?;
            let (present, number) = (&self.present, oldest.label.number);
            let is_in_use = present.as_ref().zip(number);
            if !is_in_use.is_some_and(|(present, number)| present.take_used(number.number)) {
                return Some(oldest.label);
            }
            self.clock += 1;
            oldest.at = self.clock;
        }
        None
    }

    pub(crate) fn clear(&mut self) {
        drop(self.drain());
    }

    /// All of them, away.
    pub(crate) fn drain(&mut self) -> Vec<Label> {
        self.unnamed = None;
        self.named.clear();
        if let Some(present) = &self.present {
            present.clear();
        }
        self.used.drain().map(|(_, used)| used.label).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_serial_while_it_is_known() {
        let mut texts = Texts::default();
        let one = texts.statement(b"select 1\0\0\0", Hint::default(), None, "");
        let again = texts.statement(b"select 1\0\0\0", Hint::default(), Some(4), "");
        assert_eq!(one.label(), again.label());
        let other = texts.statement(b"select 2\0\0\0", Hint::default(), None, "");
        assert_ne!(one.label(), other.label());
        let mut out = BytesMut::new();
        one.write(&mut out, "a");
        assert_eq!(&out[..], b"P\0\0\0\x11a\0select 1\0\0\0");
    }

    /// As of a client that sends each row as a text of its own.
    #[test]
    fn texts_that_nobody_has_any_more_take_no_memory() {
        let mut texts = Texts::default();
        let text = |number: u32| [&number.to_be_bytes()[..], &[b'x'; 1 << 20]].concat();
        let kept = texts.statement(&text(0), Hint::default(), None, "");
        for number in 1..200 {
            texts.statement(&text(number), Hint::default(), None, "");
            assert!(texts.bytes <= SWEEP_BYTES + (2 << 20), "{number}");
            assert!(texts.known.keys().map(Bytes::len).sum::<usize>() == texts.bytes);
        }
        let again = texts.statement(&text(0), Hint::default(), None, "");
        assert_eq!(kept.label(), again.label());
    }

    #[test]
    fn a_client_has_so_many_names_and_bytes_at_most() {
        let mut texts = Texts::default();
        let mut names = ClientNames::default();
        let long = texts.statement(&vec![b'x'; NAMES_BYTES_MAX / 2], Hint::default(), None, "");
        for name in [&b"one"[..], b"two"] {
            assert!(names.have_room(name, long.body.len()));
            names.set(name, Some(Rc::clone(&long)));
        }
        assert!(!names.have_room(b"three", 1) && names.have_room(b"two", 1));
        names.set(b"two", None);
        assert!(names.have_room(b"three", 1));
        names.clear();
        let short = texts.statement(b"select 1\0\0\0", Hint::default(), None, "");
        for name in 0..NAMES_MAX {
            names.set(name.to_string().as_bytes(), Some(Rc::clone(&short)));
        }
        assert!(!names.have_room(b"one", 1) && names.have_room(b"1", 1));
    }

    fn label(serial: u64, number: Option<u32>) -> Label {
        let number = number.map(|number| Number { number, length: 4 });
        Label { serial, number }
    }

    #[test]
    fn a_number_is_a_name_of_any_length() {
        let name = |number, length| Number { number, length }.name();
        assert_eq!(name(63, 2), "~_");
        assert_eq!([name(ONE_DIGIT, 1), name(SINGLES_END - 1, 1)], [" ", "~"]);
        assert_eq!(name(94, 3), "~U1");
        for length in [1, 2, 3, 63] {
            let mut free = Free::all();
            let free = free.of(length).expect("there are some");
            let mut names: Vec<_> = free.iter().map(|&number| name(number, length)).collect();
            assert!(
                names
                    .iter()
                    .all(|name| name.len() == length && is_own(name.as_bytes()))
            );
            let all = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), all, "two have one name of {length} bytes");
        }
        assert_eq!(name(abi::BPFDB_PROXY_STATEMENTS - 1, 6), "~__000");
        assert_eq!(label(7, None).name(), "bpfdb_7");
    }

    #[test]
    fn a_number_is_used_again_when_no_client_has_its_text() {
        let free = Rc::new(RefCell::new(Free::all()));
        let take = |length| {
            let number = free.borrow_mut().of(length)?.pop_front()?;
            let number = Number { number, length };
            let free = Rc::clone(&free);
            Some(Held { number, free })
        };
        for (length, most) in [(1, SINGLES), (SHORT, ONE_DIGIT as usize)] {
            let all: Vec<_> = (0..most).filter_map(|_| take(length)).collect();
            assert_eq!(all.len(), most);
            assert!(take(length).is_none());
            drop(all);
            assert!(take(length).is_some());
        }
        assert!(take(NAME_MAX).is_none() && take(0).is_none());
        assert!(take(3).is_some_and(|held| held.number.number == SINGLES_END));
    }

    #[test]
    fn the_oldest_goes_first() {
        let mut server = ServerStatements::default();
        (1..=3).for_each(|serial| server.add(label(serial, None)));
        assert!(server.touch(label(1, None)) && !server.touch(label(4, None)));
        assert_eq!(
            [
                server.oldest_beyond(3, label(1, None)),
                server.oldest_beyond(2, label(1, None)),
                server.oldest_beyond(2, label(2, None)),
            ],
            [None, Some(label(2, None)), Some(label(3, None))]
        );
    }

    #[test]
    fn a_name_on_a_server_is_one_statements() {
        let mut server = ServerStatements::default();
        let (old, new) = (label(1, Some(9)), label(2, Some(9)));
        server.add(old);
        assert_eq!(server.namesake(old), None);
        assert_eq!(server.namesake(new), Some(old));
        server.remove(old);
        server.add(new);
        assert!(!server.touch(old) && server.touch(new));
        assert_eq!(server.namesake(new), None);
    }

    #[test]
    fn the_kernel_is_told_what_has_changed() {
        let mut texts = Texts::default();
        let text = texts.statement(b"select 1\0\0\0", Hint::default(), None, "");
        let mut names = ClientNames::default();
        names.set(b"a", Some(Rc::clone(&text)));
        names.set(b"", Some(text));
        names.set(b"b", None);
        assert_eq!(names.changed.len(), 1);
        // It has no number, so that the kernel does not know it.
        names.tell(|name, number| panic!("{name:?} {number:?}"));
        assert!(names.changed.is_empty() && names.told.is_empty());
    }
}
