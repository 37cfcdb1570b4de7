//! Elements, ranks and ranges that are looked up in collections: of a large one by the head and the pages that the
//! process has kept ([`PageCache`]), which one call of the engine confirms, and brings what is missing.
//!
//! In a transaction of the client's, and where that does not come to an end soon, a collection is read as by any other
//! command ([`read`]).

use bpfdb::{Session, ValueType};
use bpfdb_values::big::{self, Big};
use bpfdb_values::run::{Malformed, Run};

use super::Failure;
use super::atomic::is_open;
use super::collection::{Collection, find_in, kind_of, load_value, read};
use super::context::Context;
use super::large::SessionPages;
use super::time_slice::TimeSlice;
use crate::instance::page_cache::{Known, PageCache};
use crate::protocol::reply;

/// Attempts of a look-up: a page for each level of a high tree, and some for writers that are faster.
pub(crate) const ATTEMPTS: usize = 8;

/// Shows a collection of this type to `work`, which looks something up and is told the same again if it failed;
/// `None`: the key is absent.
///
/// # Errors
/// WRONGTYPE for a value of another type. [`Failure::NotFetched`] while requests are gathered.
pub(super) fn look_up<T>(
    context: &mut Context<'_>,
    key: &[u8],
    kind: ValueType,
    mut work: impl FnMut(Collection<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let session = &mut *context.session;
    if is_open(session) {
        return read(session, key, kind, work);
    }
    let stored = session.database().stored(key);
    let cache = &mut context.instance.page_cache;
    if cache.is_gathering() {
        let outcome = attempt(cache, &stored, kind, &mut work);
        if cache.knows(&stored) {
            note_large(context);
        }
        return outcome;
    }
    let is_known = cache.knows(&stored);
    if !is_known {
        let Some(found) = load_value(session, key, kind)? else {
            return Ok(None);
        };
        let Some(head) = big::Head::parse(&found.value)? else {
            return work(Collection::Small(found.value)).map(Some);
        };
        cache.suppose(&stored, kind, head);
    }
    let kept = by_kept_pages(cache, session, &stored, kind, &mut work);
    let was_found = cache.take_found();
    let statistics = &context.instance.statistics;
    // The engine has counted reads of pages, and of the key several.
    statistics.subtract(cache.end());
    let found = match kept {
        Some(found) => {
            if is_known {
                let number = |found| u64::from(was_found == Some(found));
                statistics.got_many(number(true), number(false));
            }
            if matches!(found, Ok(None)) {
                session.note_miss(key);
            }
            found
        }
        None => read(session, key, kind, work),
    };
    note_large(context);
    found
}

/// The kernel has left a look-up in a large collection to the daemon: it lacks the program, or this was beyond that.
/// A connection that asks much of this kind stays, with another trial now and then; so does one whose command is
/// the daemon's anyhow.
fn note_large(context: &mut Context<'_>) {
    if !context.connection.needs_daemon {
        let needs_daemon = context.connection.is_request_refused_often();
        context.set_needs_daemon(needs_daemon);
    }
}

/// `None`: it is to be read in another way.
fn by_kept_pages<T>(
    cache: &mut PageCache,
    session: &mut Session,
    stored: &[u8],
    kind: ValueType,
    work: &mut impl FnMut(Collection<'_>) -> Result<T, Failure>,
) -> Option<Result<Option<T>, Failure>> {
    cache.begin();
    let slice = TimeSlice::begin();
    for number in 0..ATTEMPTS {
        if number > 1 && slice.is_over() {
            return None;
        }
        let outcome = attempt(cache, stored, kind, work);
        let is_complete = !matches!(outcome, Err(Failure::NotFetched));
        if is_complete && cache.is_current() {
            return Some(outcome);
        }
        if cache.wants_much(1) {
            return None;
        }
        let is_unchanged = cache.fetch(session).ok()?;
        if is_complete && is_unchanged {
            return Some(outcome);
        }
    }
    None
}

/// Does `work` with what is known.
fn attempt<T>(
    cache: &mut PageCache,
    stored: &[u8],
    kind: ValueType,
    work: &mut impl FnMut(Collection<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    match cache.attempt(stored) {
        Known::Nothing => Err(Failure::NotFetched),
        Known::Small(small) => {
            let Some(value) = &small.value else {
                return Ok(None);
            };
            check(small.kind, kind)?;
            work(Collection::Small(value.clone())).map(Some)
        }
        Known::Large(known) => {
            check(known.kind, kind)?;
            let kind = kind_of(kind).ok_or(Malformed::TYPE)?;
            let pages = SessionPages::kept(cache, known.version);
            work(Collection::Large(Big::open(
                kind,
                known.head.clone(),
                pages,
            )))
            .map(Some)
        }
    }
}

fn check(found: ValueType, kind: ValueType) -> Result<(), Failure> {
    if found != kind {
        return Err(Failure::Text(reply::wrong_type().to_vec()));
    }
    Ok(())
}

/// Number of elements.
pub(super) fn len(context: &mut Context<'_>, key: &[u8], kind: ValueType) -> Result<u64, Failure> {
    if context.instance.page_cache.is_gathering() {
        let found = look_up(context, key, kind, |collection| match collection {
            Collection::Small(bytes) => Ok(Run::parse(&bytes)?.len() as u64),
            Collection::Large(large) => Ok(large.len()),
        })?;
        return Ok(found.unwrap_or(0));
    }
    // Head or run say it: no page is read.
    let Some(found) = load_value(context.session, key, kind)? else {
        return Ok(0);
    };
    let Some(head) = big::Head::parse(&found.value)? else {
        return Ok(Run::parse(&found.value)?.len() as u64);
    };
    note_large(context);
    Ok(head.elements)
}

/// The values of some elements of a hash or a sorted set, and `Some` for each that a set has; `None`: the key is absent.
pub(super) fn find<E: AsRef<[u8]>>(
    context: &mut Context<'_>,
    key: &[u8],
    kind: ValueType,
    elements: &[E],
) -> Result<Option<Vec<Option<Vec<u8>>>>, Failure> {
    look_up(context, key, kind, |collection| {
        find_in(collection, elements)
    })
}
