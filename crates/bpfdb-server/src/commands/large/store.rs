//! Large collections that are made, and that are moved to another key.

use std::hash::{BuildHasher, RandomState};

use bpfdb::Session;
use bpfdb_values::big::{Head, PageKey, Place, build};
use bpfdb_values::limits::Kind;
use bpfdb_values::run::Run;

use super::super::Failure;
use super::known;
use super::pages::{Access, SessionPages, stored_key};

pub(super) fn anchor(identity: u64) -> [u8; 24] {
    stored_key(PageKey {
        identity,
        place: Place::ANCHOR,
    })
}

/// Writes anchor and pages of a collection with the elements of this run, in a transaction: the head that the
/// key is to get in the same one.
///
/// # Errors
/// A damaged run, and those of the engine.
pub(in super::super) fn store(
    session: &mut Session,
    key: &[u8],
    kind: Kind,
    run: &[u8],
) -> Result<Head, Failure> {
    let identity = draw(session)?;
    known::add(identity);
    write_anchor(session, identity, key)?;
    let pages = SessionPages::new(session, Access::Exclusive);
    build(
        kind,
        &Run::parse(run)?,
        identity,
        [chance(), chance()],
        pages,
    )
}

/// An identity that no collection has. Invariant 4 of [`super`].
fn draw(session: &mut Session) -> Result<u64, Failure> {
    loop {
        let identity = chance();
        if session.get_for_update(&anchor(identity))?.is_none() {
            return Ok(identity);
        }
    }
}

/// 64 bits that clients cannot foresee: SipHash with a key of the process's, drawn by the kernel.
fn chance() -> u64 {
    RandomState::new().hash_one(0)
}

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
