//! Collections as commands read and write them: as the bytes of a packed run, or a large one by its pages.
//!
//! ```text
//!            small               large
//!  look      the run             all pages, made into one run
//!  change    the run, anew       the same; what results is a new collection
//!  read      the run             the pages that are needed
//!  stored_for_update             the pages that are needed
//! ```
//!
//! `look`, `load` and `change` are for every command; those that are common on large collections have a way of their
//! own beside them, by `read` and [`stored_for_update`].

use bpfdb::{Entry, Head, Session, ValueType};
use bpfdb_values::big::{self, Big, Shape};
use bpfdb_values::limits;
use bpfdb_values::run::{Malformed, Run};

use super::atomic::{Kind, atomically};
use super::large::{self, Access, SessionPages, is_to_be_large};
use super::update::VALUE_MAX;
use super::{Failure, Outcome};
use crate::protocol::reply::{self, Replies};
use crate::settings::limits::MESSAGE_MAX;

const TOO_LONG: &str = "ERR collection exceeds maximum allowed size (512 MiB)";

/// A large collection in a transaction.
pub(super) type Large<'s> = Big<SessionPages<'s>>;

/// A collection that is read.
#[derive(Debug)]
pub(super) enum Collection<'s> {
    /// The bytes of its run.
    Small(Vec<u8>),
    Large(Large<'s>),
}

/// A collection that may be changed, under an exclusive lock.
#[derive(Debug)]
pub(super) enum Stored {
    /// The bytes of its run; `None`: the key is absent.
    Small(Option<Entry>),
    Large(StoredLarge),
}

/// The head of a large one.
#[derive(Debug)]
pub(super) struct StoredLarge {
    kind: limits::Kind,
    head: big::Head,
    expires_at: Option<u64>,
}

/// What becomes of a collection.
#[derive(Debug)]
pub(super) enum Change {
    Nothing,
    /// It has no element any more.
    Delete,
    /// Its bytes; when the key expires stays.
    Set(Vec<u8>),
}

impl From<Option<Vec<u8>>> for Change {
    /// `None`: it has no element any more.
    fn from(bytes: Option<Vec<u8>>) -> Self {
        bytes.map_or(Self::Delete, Self::Set)
    }
}

/// The bytes of a collection of this type and when it expires; `None` if the key is absent.
///
/// # Errors
/// WRONGTYPE for a value of another type.
pub(super) fn load(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
) -> Result<Option<Entry>, Failure> {
    match load_value(session, key, kind)? {
        Some(entry) if big::head::is_head(&entry.value) => {
            // The head and its pages are those of one moment.
            atomically(session, Kind::Read, |session| {
                let entry = load_value(session, key, kind)?;
                entry
                    .map(|entry| whole(session, kind, entry, Access::Shared))
                    .transpose()
            })
        }
        found => Ok(found),
    }
}

/// The value of a collection: a run, or the head of a large one.
pub(super) fn load_value(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
) -> Result<Option<Entry>, Failure> {
    let Some(head) = session.head(key)? else {
        return Ok(None);
    };
    if let Some(entry) = entry(head, kind)? {
        return Ok(Some(entry));
    }
    // Without a lock it may have another value by now.
    match session.typed_entry(key)? {
        Some((found, _)) if found != kind => Err(Failure::Text(reply::wrong_type().to_vec())),
        found => Ok(found.map(|(_, entry)| entry)),
    }
}

/// A large collection or stream as the bytes of one that is not large; of others the entry as it is. In a transaction.
fn whole(
    session: &mut Session,
    kind: ValueType,
    mut entry: Entry,
    access: Access,
) -> Result<Entry, Failure> {
    let (Some(shape), Some(head)) = (shape_of(kind), big::Head::parse(&entry.value)?) else {
        return Ok(entry);
    };
    let mut large = Big::open(shape, head, SessionPages::new(session, access));
    entry.value = large.whole()?;
    Ok(entry)
}

/// The value as a whole if it is that of a collection, whose type is known: see [`load`].
pub(super) fn load_whole(
    session: &mut Session,
    key: &[u8],
) -> Result<Option<(ValueType, Entry)>, Failure> {
    atomically(session, Kind::Read, |session| {
        let Some((kind, entry)) = session.typed_entry(key)? else {
            return Ok(None);
        };
        Ok(Some((kind, whole(session, kind, entry, Access::Shared)?)))
    })
}

/// `None`: values of this type are no collections.
pub(super) fn kind_of(kind: ValueType) -> Option<limits::Kind> {
    match kind {
        ValueType::HASH => Some(limits::Kind::Hash),
        ValueType::LIST => Some(limits::Kind::List),
        ValueType::SET => Some(limits::Kind::Set),
        ValueType::SORTED_SET => Some(limits::Kind::SortedSet),
        _ => None,
    }
}

/// `None`: values of this type have no pages.
pub(super) fn shape_of(kind: ValueType) -> Option<Shape> {
    match kind {
        ValueType::STREAM => Some(Shape::Stream),
        kind => kind_of(kind).map(Shape::Collection),
    }
}

/// Shows a collection of this type to `work`; `None`: the key is absent. After a conflict `work` sees it again.
///
/// # Errors
/// WRONGTYPE for a value of another type.
pub(super) fn read<T>(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
    mut work: impl FnMut(Collection<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let Some(found) = load_value(session, key, kind)? else {
        return Ok(None);
    };
    if !big::head::is_head(&found.value) {
        return work(Collection::Small(found.value)).map(Some);
    }
    atomically(session, Kind::Read, |session| {
        let Some(found) = load_value(session, key, kind)? else {
            return Ok(None);
        };
        let (Some(kind), Some(head)) = (kind_of(kind), big::Head::parse(&found.value)?) else {
            return work(Collection::Small(found.value)).map(Some);
        };
        let pages = SessionPages::new(session, Access::Shared);
        work(Collection::Large(Big::open(kind, head, pages))).map(Some)
    })
}

/// The values of some elements of a hash or a sorted set, and `Some` for each that a set has; `None`: the key is absent.
pub(super) fn find<E: AsRef<[u8]>>(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
    elements: &[E],
) -> Result<Option<Vec<Option<Vec<u8>>>>, Failure> {
    read(session, key, kind, |collection| {
        find_in(collection, elements)
    })
}

/// The same of a collection.
pub(super) fn find_in<E: AsRef<[u8]>>(
    collection: Collection<'_>,
    elements: &[E],
) -> Result<Vec<Option<Vec<u8>>>, Failure> {
    match collection {
        Collection::Small(bytes) => Ok(find_in_run(&Run::parse(&bytes)?, elements)?),
        Collection::Large(mut large) => {
            let elements = elements.iter();
            // Pages that are missing for several are asked for at once.
            let found: Vec<_> = elements
                .map(|element| large.find(element.as_ref()))
                .collect();
            found.into_iter().collect()
        }
    }
}

/// More elements than these are looked for by an index.
const FEW: usize = 4;

fn find_in_run<E: AsRef<[u8]>>(
    run: &Run<'_>,
    elements: &[E],
) -> Result<Vec<Option<Vec<u8>>>, Malformed> {
    let elements = elements.iter();
    if elements.len() <= FEW {
        let found = elements.map(|element| run.find(element.as_ref()));
        return found.map(|found| Ok(found?.map(<[u8]>::to_vec))).collect();
    }
    let mut index = bpfdb_values::Hash::of_run(run)?;
    Ok(elements
        .map(|element| index.get(element.as_ref()).map(<[u8]>::to_vec))
        .collect())
}

/// Shows the run of a collection of this type to `work`; `None`: the key is absent.
///
/// # Errors
/// WRONGTYPE for a value of another type.
pub(super) fn look<T>(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
    work: impl FnOnce(Run<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let Some(entry) = load(session, key, kind)? else {
        return Ok(None);
    };
    work(Run::parse(&entry.value)?).map(Some)
}

/// [`load`] of a collection of one of these types, in a transaction; with its type.
pub(super) fn load_any(
    session: &mut Session,
    key: &[u8],
    kinds: &[ValueType],
) -> Result<Option<(ValueType, Entry)>, Failure> {
    let Some(head) = session.head(key)? else {
        return Ok(None);
    };
    let kind = head.value_type;
    if !kinds.contains(&kind) {
        return Err(Failure::Text(reply::wrong_type().to_vec()));
    }
    Ok(load(session, key, kind)?.map(|entry| (kind, entry)))
}

/// [`load`] under an exclusive lock, in a read-write transaction.
pub(super) fn load_for_update(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
) -> Result<Option<Entry>, Failure> {
    let Some(entry) = load_value_for_update(session, key, kind)? else {
        return Ok(None);
    };
    if let Some(head) = big::Head::parse(&entry.value)? {
        // What becomes of it is another collection, perhaps.
        large::suspect(head.identity);
    }
    whole(session, kind, entry, Access::Exclusive).map(Some)
}

pub(super) fn load_value_for_update(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
) -> Result<Option<Entry>, Failure> {
    let Some(head) = session.head_for_update(key)? else {
        return Ok(None);
    };
    match entry(head, kind)? {
        Some(entry) => Ok(Some(entry)),
        None => Ok(session.entry_of_any_type_for_update(key)?),
    }
}

/// A collection under an exclusive lock, in a read-write transaction.
///
/// # Errors
/// WRONGTYPE for a value of another type.
pub(super) fn stored_for_update(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
) -> Result<Stored, Failure> {
    let found = load_value_for_update(session, key, kind)?;
    let Some(entry) = found else {
        return Ok(Stored::Small(None));
    };
    Ok(match (kind_of(kind), big::Head::parse(&entry.value)?) {
        (Some(kind), Some(head)) => Stored::Large(StoredLarge {
            kind,
            head,
            expires_at: entry.expires_at,
        }),
        _ => Stored::Small(Some(entry)),
    })
}

impl StoredLarge {
    pub(super) fn len(&self) -> u64 {
        self.head.elements
    }

    /// Does `work` to the collection, and writes what has changed.
    pub(super) fn change<T>(
        self,
        session: &mut Session,
        key: &[u8],
        work: impl FnOnce(&mut Large<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let identity = self.head.identity;
        let kind = type_of(self.kind);
        let may_write = large::may_write(session);
        let pages = SessionPages::new(session, Access::Exclusive);
        let mut large = Big::open(self.kind, self.head, pages);
        let limits = ChangeLimits::of(&large, may_write);
        let result = work(&mut large)?;
        if !large.has_changed() {
            return Ok(result);
        }
        if large.is_empty() {
            drop(large);
            large::suspect(identity);
            session.delete(key)?;
            return Ok(result);
        }
        limits
            .write(large)?
            .put(session, key, kind, self.expires_at)?;
        Ok(result)
    }

    /// Shows the collection to `work`, which changes nothing.
    pub(super) fn look<T>(
        &self,
        session: &mut Session,
        work: impl FnOnce(&mut Large<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let pages = SessionPages::new(session, Access::Exclusive);
        work(&mut Big::open(self.kind, self.head.clone(), pages))
    }
}

/// How far a command may change a large collection, or stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangeLimits {
    /// Bytes that one which is not large would have had before.
    before: u64,
    /// Bytes of pages that may be written in the transaction.
    may_write: usize,
}

impl ChangeLimits {
    /// Of one that was not changed yet.
    pub(super) fn of(large: &Large<'_>, may_write: usize) -> Self {
        Self {
            before: large.whole_len(),
            may_write,
        }
    }

    /// Writes the pages that have changed, unless these are too many: then it is to be written anew.
    ///
    /// # Errors
    /// It is too long, and those of the pages.
    pub(super) fn write(self, mut large: Large<'_>) -> Result<Written, Failure> {
        // As one value it must have room in a copy.
        if large.whole_len() > self.before.max(VALUE_MAX) {
            return Err(TOO_LONG.into());
        }
        if large.changed_bytes() > self.may_write {
            let identity = large.head().identity;
            let bytes = large.whole()?;
            return Ok(Written::Anew { identity, bytes });
        }
        large.finish().map(Written::Pages)
    }
}

/// What a large collection, or stream, that was changed has written so far.
#[derive(Debug)]
pub(super) enum Written {
    /// Its pages; this is their head.
    Pages(big::Head),
    /// Nothing. Its pages have this identity, and it has these bytes if it is not large.
    Anew { identity: u64, bytes: Vec<u8> },
}

impl Written {
    /// Gives the key its value.
    pub(super) fn put(
        self,
        session: &mut Session,
        key: &[u8],
        kind: ValueType,
        expires_at: Option<u64>,
    ) -> Outcome {
        match self {
            Self::Pages(head) => Ok(session.set_typed(key, kind, &head.to_bytes(), expires_at)?),
            Self::Anew { identity, bytes } => {
                large::suspect(identity);
                put(session, key, kind, Some(&bytes), expires_at)
            }
        }
    }
}

fn type_of(kind: limits::Kind) -> ValueType {
    match kind {
        limits::Kind::Hash => ValueType::HASH,
        limits::Kind::List => ValueType::LIST,
        limits::Kind::Set => ValueType::SET,
        limits::Kind::SortedSet => ValueType::SORTED_SET,
    }
}

/// `None`: a large value, which is not read yet.
fn entry(head: Head, kind: ValueType) -> Result<Option<Entry>, Failure> {
    if head.value_type != kind {
        return Err(Failure::Text(reply::wrong_type().to_vec()));
    }
    let expires_at = head.expires_at;
    Ok(head.value.map(|value| Entry { value, expires_at }))
}

/// Gives a key a collection or a stream of these bytes; `None`: it has no element any more.
///
/// # Errors
/// A collection that is too long, of which nothing is written.
pub(super) fn put(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
    bytes: Option<&[u8]>,
    expires_at: Option<u64>,
) -> Result<(), Failure> {
    let Some(bytes) = bytes else {
        session.delete(key)?;
        return Ok(());
    };
    if bytes.len() as u64 > VALUE_MAX {
        return Err(TOO_LONG.into());
    }
    match shape_of(kind) {
        Some(shape) if is_to_be_large(shape, bytes) => {
            let head = large::store(session, key, shape, bytes)?;
            Ok(session.set_typed(key, kind, &head.to_bytes(), expires_at)?)
        }
        _ => Ok(session.set_typed(key, kind, bytes, expires_at)?),
    }
}

/// The value of this head has moved to another key, in a transaction: so has a large collection.
pub(super) fn moved(session: &mut Session, to: &[u8], head: &Head) -> Outcome {
    match large_head(head)? {
        Some(head) => large::moved(session, &head, to),
        None => Ok(()),
    }
}

/// Gives a key the elements of the large collection that another key has, as a collection of its own, in a
/// transaction. False: it has no large collection, and nothing was done.
pub(super) fn copy_large(session: &mut Session, to: &[u8], head: &Head) -> Result<bool, Failure> {
    let Some(elements) = load_elements(session, head)? else {
        return Ok(false);
    };
    let elements = Some(&elements[..]);
    put(session, to, head.value_type, elements, head.expires_at)?;
    Ok(true)
}

/// The elements of the large collection with this head as one run; `None`: it is another value.
pub(super) fn load_elements(
    session: &mut Session,
    head: &Head,
) -> Result<Option<Vec<u8>>, Failure> {
    let (Some(_), Some(value)) = (large_head(head)?, &head.value) else {
        return Ok(None);
    };
    let entry = Entry {
        value: value.clone(),
        expires_at: head.expires_at,
    };
    let entry = whole(session, head.value_type, entry, Access::Shared)?;
    Ok(Some(entry.value))
}

/// The head of the large collection, or stream, that this value is; `None`: it is another value.
pub(super) fn large_head(head: &Head) -> Result<Option<big::Head>, Malformed> {
    match (&head.value, shape_of(head.value_type)) {
        (Some(value), Some(_)) => big::Head::parse(value),
        _ => Ok(None),
    }
}

/// Reads a collection under an exclusive lock and does to it what `work` says: in the client's
/// transaction, or in one of its own, which is tried again after a conflict.
pub(super) fn change<T>(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
    mut work: impl FnMut(Option<Vec<u8>>) -> Result<(Change, T), Failure>,
) -> Result<T, Failure> {
    atomically(session, Kind::Write, |session| {
        let old = load_for_update(session, key, kind)?;
        let expires_at = old.as_ref().and_then(|old| old.expires_at);
        let (change, result) = work(old.map(|old| old.value))?;
        apply(session, key, kind, change, expires_at)?;
        Ok(result)
    })
}

/// Does to a key what is to become of its collection.
pub(super) fn apply(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
    change: Change,
    expires_at: Option<u64>,
) -> Outcome {
    match change {
        Change::Nothing => Ok(()),
        Change::Delete => put(session, key, kind, None, None),
        Change::Set(value) => put(session, key, kind, Some(&value), expires_at),
    }
}

/// Changes a collection under an exclusive lock: `small` does as in [`change`], `large` changes what it is
/// given, of which what has changed is written.
pub(super) fn change_either<T>(
    session: &mut Session,
    key: &[u8],
    kind: ValueType,
    mut small: impl FnMut(Option<Vec<u8>>) -> Result<(Change, T), Failure>,
    mut large: impl FnMut(&mut Large<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    atomically(session, Kind::Write, |session| {
        match stored_for_update(session, key, kind)? {
            Stored::Large(stored) => stored.change(session, key, &mut large),
            Stored::Small(old) => {
                let expires_at = old.as_ref().and_then(|old| old.expires_at);
                let (change, result) = small(old.map(|old| old.value))?;
                apply(session, key, kind, change, expires_at)?;
                Ok(result)
            }
        }
    })
}

/// May a collection be so long, bytes of its run? Asked before it is written.
pub(super) fn check_len(len: usize) -> Outcome {
    if len as u64 > VALUE_MAX {
        return Err(TOO_LONG.into());
    }
    Ok(())
}

pub(super) const REPLY_TOO_LONG: &str = "ERR reply is longer than 640 MiB; ask for fewer elements";

/// May a reply be so long that began behind `start` bytes? Asked after each of its elements.
pub(super) fn check_reply(replies: &Replies, start: usize) -> Outcome {
    if replies.len() - start > MESSAGE_MAX {
        return Err(REPLY_TOO_LONG.into());
    }
    Ok(())
}
