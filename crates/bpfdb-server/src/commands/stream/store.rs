//! Streams as commands read and write them. Blocks of entries lie in the value of a short stream, which is read
//! and written whole, and in pages of a long one; commands know nothing of that beside these functions.

use std::mem;

use bpfdb::{Session, ValueType};
use bpfdb_values::big::stream::Paged;
use bpfdb_values::big::{self, Big, Head, Shape};
use bpfdb_values::stream::blocks::{Blocks, Inline, Stored};
use bpfdb_values::stream::{Id, State, Stream, value};

use super::super::Failure;
use super::super::atomic::{Kind, atomically};
use super::super::collection::{ChangeLimits, check_len, load_value, load_value_for_update, put};
use super::super::large::{self, Access, SessionPages};

/// A stream, wherever its blocks are.
pub(super) type Kept<'a> = Stream<'a, KeptBlocks<'a>>;

/// Where the blocks of a stream are.
#[derive(Debug)]
pub(super) enum KeptBlocks<'a> {
    /// In its value.
    Inline(Inline<'a>),
    Paged(Paged<SessionPages<'a>>),
}

impl Default for KeptBlocks<'_> {
    fn default() -> Self {
        Self::Inline(Inline::default())
    }
}

impl Blocks for KeptBlocks<'_> {
    type Error = Failure;

    fn last_up_to(&mut self, id: Id) -> Result<Option<Stored<'_>>, Failure> {
        match self {
            Self::Inline(blocks) => Ok(blocks.last_up_to(id)?),
            Self::Paged(blocks) => blocks.last_up_to(id),
        }
    }

    fn first_from(&mut self, id: Id) -> Result<Option<Stored<'_>>, Failure> {
        match self {
            Self::Inline(blocks) => Ok(blocks.first_from(id)?),
            Self::Paged(blocks) => blocks.first_from(id),
        }
    }

    fn put(&mut self, id: Id, bytes: Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::Inline(blocks) => Ok(blocks.put(id, bytes)?),
            Self::Paged(blocks) => blocks.put(id, bytes),
        }
    }

    fn remove(&mut self, id: Id) -> Result<(), Failure> {
        match self {
            Self::Inline(blocks) => Ok(blocks.remove(id)?),
            Self::Paged(blocks) => blocks.remove(id),
        }
    }

    fn ids(&mut self) -> Result<Vec<Id>, Failure> {
        match self {
            Self::Inline(blocks) => Ok(blocks.ids()?),
            Self::Paged(blocks) => blocks.ids(),
        }
    }

    fn stored_groups(&mut self) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Inline(blocks) => Ok(blocks.stored_groups()?),
            Self::Paged(blocks) => blocks.stored_groups(),
        }
    }
}

/// Whether a stream has become another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    No,
    Yes,
}

/// Shows a stream to `work`; `None`: the key is absent. After a conflict `work` sees it again.
///
/// # Errors
/// WRONGTYPE, and those of `work`.
pub(super) fn look<T>(
    session: &mut Session,
    key: &[u8],
    mut work: impl FnMut(&mut Kept<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let Some(found) = load_value(session, key, ValueType::STREAM)? else {
        return Ok(None);
    };
    if !big::head::is_head(&found.value) {
        return work(&mut short(&found.value)?).map(Some);
    }
    // The head and its pages are those of one moment.
    atomically(session, Kind::Read, |session| {
        let Some(found) = load_value(session, key, ValueType::STREAM)? else {
            return Ok(None);
        };
        shown(session, &found.value, Access::Shared, &mut work).map(Some)
    })
}

/// The same under an exclusive lock, in a transaction that writes.
pub(super) fn look_locked<T>(
    session: &mut Session,
    key: &[u8],
    mut work: impl FnMut(&mut Kept<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let Some(found) = load_value_for_update(session, key, ValueType::STREAM)? else {
        return Ok(None);
    };
    shown(session, &found.value, Access::Exclusive, &mut work).map(Some)
}

/// Shows the stream that is this value to `work`, in a transaction.
fn shown<T>(
    session: &mut Session,
    value: &[u8],
    access: Access,
    work: &mut impl FnMut(&mut Kept<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match Head::parse(value)? {
        None => work(&mut short(value)?),
        Some(head) => {
            let pages = Big::open(Shape::Stream, head, SessionPages::new(session, access));
            work(&mut Stream::open(pages)?.map_blocks(KeptBlocks::Paged))
        }
    }
}

/// The stream with these bytes.
fn short(bytes: &[u8]) -> Result<Kept<'_>, Failure> {
    Ok(value::read(bytes)?.map_blocks(KeptBlocks::Inline))
}

/// What is known of a stream without its entries.
pub(super) fn state(session: &mut Session, key: &[u8]) -> Result<Option<State>, Failure> {
    let Some(entry) = load_value(session, key, ValueType::STREAM)? else {
        return Ok(None);
    };
    let stream = Head::parse(&entry.value)?.and_then(|head| head.stream);
    match stream {
        Some(stream) => Ok(Some(stream.state)),
        None => Ok(Some(value::read_state(&entry.value)?)),
    }
}

/// Does to a stream under an exclusive lock what `work` says, which hears whether the key is there; an
/// absent stream is empty.
///
/// # Errors
/// WRONGTYPE, a stream that is too long, and those of `work`: nothing was done.
pub(super) fn change<T>(
    session: &mut Session,
    key: &[u8],
    mut work: impl FnMut(&mut Kept<'_>, bool) -> Result<(Changed, T), Failure>,
) -> Result<T, Failure> {
    atomically(session, Kind::Write, |session| {
        let old = load_value_for_update(session, key, ValueType::STREAM)?;
        let expires_at = old.as_ref().and_then(|old| old.expires_at);
        let old = old.map(|old| old.value);
        let head = old.as_deref().map(Head::parse).transpose()?.flatten();
        if let Some(head) = head {
            return change_long(session, key, head, expires_at, &mut work);
        }
        let mut stream = old.as_deref().map_or(Ok(Kept::default()), short)?;
        let (changed, result) = work(&mut stream, old.is_some())?;
        if changed == Changed::Yes
            && let KeptBlocks::Inline(blocks) = mem::take(&mut stream.blocks)
        {
            let stream = stream.map_blocks(|_| blocks);
            check_len(value::written_len(&stream))?;
            let bytes = value::write(&stream);
            put(session, key, ValueType::STREAM, Some(&bytes), expires_at)?;
        }
        Ok(result)
    })
}

/// The same to a stream with this head.
fn change_long<T>(
    session: &mut Session,
    key: &[u8],
    head: Head,
    expires_at: Option<u64>,
    work: &mut impl FnMut(&mut Kept<'_>, bool) -> Result<(Changed, T), Failure>,
) -> Result<T, Failure> {
    let may_write = large::may_write(session);
    let pages = SessionPages::new(session, Access::Exclusive);
    let large = Big::open(Shape::Stream, head, pages);
    let limits = ChangeLimits::of(&large, may_write);
    let mut stream = Stream::open(large)?.map_blocks(KeptBlocks::Paged);
    let (changed, result) = work(&mut stream, true)?;
    let blocks = mem::take(&mut stream.blocks);
    if changed == Changed::Yes
        && let KeptBlocks::Paged(blocks) = blocks
    {
        let changed = limits.write(stream.map_blocks(|_| blocks).settle()?)?;
        changed.put(session, key, ValueType::STREAM, expires_at)?;
    }
    Ok(result)
}
