//! Large collections that are made, and that are moved to another key.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use bpfdb::{Session, Status, ValueType};
use bpfdb_values::big::{Head, Pages, Shape, build, stream};
use bpfdb_values::limits::Kind;
use bpfdb_values::run::Run;

use super::super::Failure;
use super::apart::{PagesApart, draw};
use super::known;
use super::limits::{STORED_MAX, may_write};
use super::pages::{Access, SessionPages, anchor};

/// Writes anchor and pages of a collection with the elements of this run, or of the stream with these bytes, in a
/// transaction: the head that the key is to get in the same one.
///
/// # Errors
/// A damaged run or stream, and those of the engine.
pub(in super::super) fn store(
    session: &mut Session,
    key: &[u8],
    shape: Shape,
    value: &[u8],
) -> Result<Head, Failure> {
    if pages_of(shape, value.len()) > may_write(session).min(STORED_MAX) {
        return store_apart(session, key, shape, value);
    }
    let identity = draw(session)?;
    known::add(identity);
    write_anchor(session, identity, key)?;
    let secret = secret_of(session, key)?;
    let pages = SessionPages::new(session, Access::Exclusive);
    write_pages(shape, value, identity, secret, pages)
}

fn write_pages<P: Pages>(
    shape: Shape,
    value: &[u8],
    identity: u64,
    secret: [u64; 2],
    pages: P,
) -> Result<Head, P::Error> {
    match shape {
        Shape::Collection(kind) => build(kind, &Run::parse(value)?, identity, secret, pages),
        Shape::Stream => stream::build(value, identity, pages),
    }
}

/// Bytes of the records of pages with the elements of a value of so many bytes, at most.
fn pages_of(shape: Shape, len: usize) -> usize {
    let is_sorted_set = shape == Kind::SortedSet.into();
    let structures = if is_sorted_set { 2 } else { 1 };
    // Headers, keys, and separators.
    structures * (len + len / 4)
}

/// The same for pages that are too many for a transaction, and for its part of the log: others have committed them
/// before. They are kept from collection by the lock of the anchor, which the transaction takes.
fn store_apart(
    session: &mut Session,
    key: &[u8],
    shape: Shape,
    value: &[u8],
) -> Result<Head, Failure> {
    let stored = session.database().stored(key).into_owned();
    let mut pages = PagesApart::new(session)?;
    let identity = pages.draw(&stored)?;
    // If this comes to nothing, they have no head.
    known::suspect(identity);
    let secret = secret_of(session, key)?;
    let head = write_pages(shape, value, identity, secret, &mut pages)?;
    pages.flush()?;
    match session.get_for_update(&anchor(identity))? {
        Some(_) => {
            pages.keep();
            Ok(head)
        }
        None => Err(Status::Conflict.into()),
    }
}

/// The secret of the collection that this key gets: that of the large one that it has, because the cursors of
/// SSCAN and its kin are positions of the hash. Else one that a key keeps as long as the process lives: what
/// was large may have been small in between.
fn secret_of(session: &mut Session, key: &[u8]) -> Result<[u64; 2], Failure> {
    // A client can give a string the form of a head: its secret would be the client's choice.
    let before = session
        .without_misses(|session| session.head_for_update(key))?
        .filter(|head| head.value_type != ValueType::STRING)
        .and_then(|head| head.value);
    if let Some(Ok(Some(head))) = before.as_deref().map(Head::parse) {
        return Ok(head.secret);
    }
    let stored = session.database().stored(key);
    Ok([0, 1].map(|word| SECRETS.hash_one((word, &stored))))
}

/// Keyed by the process: clients cannot foresee what it makes.
static SECRETS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The key with the head of this collection is another one by now, in the same transaction.
pub(in super::super) fn moved(
    session: &mut Session,
    head: &Head,
    key: &[u8],
) -> Result<(), Failure> {
    write_anchor(session, head.identity, key)
}

fn write_anchor(session: &mut Session, identity: u64, key: &[u8]) -> Result<(), Failure> {
    // The collector has no database of its own.
    let stored = session.database().stored(key).into_owned();
    Ok(session.set(&anchor(identity), &stored)?)
}
