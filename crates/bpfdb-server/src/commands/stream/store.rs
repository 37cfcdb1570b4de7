//! Streams as commands read and write them. Blocks of entries lie in the stream's value, which is read
//! and written whole; commands know nothing of that beside these functions, so that blocks can become
//! records of their own.

use bpfdb::{Session, ValueType};
use bpfdb_values::stream::blocks::Inline;
use bpfdb_values::stream::{State, Stream, value};

use super::super::Failure;
use super::super::collection::{self, Change, check_len, load, load_for_update};

/// A stream, wherever its blocks are.
pub(super) type Kept<'a> = Stream<'a, Inline<'a>>;

/// Whether a stream has become another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    No,
    Yes,
}

/// Shows a stream to `work`; `None`: the key is absent.
///
/// # Errors
/// WRONGTYPE, and those of `work`.
pub(super) fn look<T>(
    session: &mut Session,
    key: &[u8],
    work: impl FnOnce(&mut Kept<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let Some(entry) = load(session, key, ValueType::STREAM)? else {
        return Ok(None);
    };
    work(&mut value::read(&entry.value)?).map(Some)
}

/// The same under an exclusive lock, in a transaction that writes.
pub(super) fn look_locked<T>(
    session: &mut Session,
    key: &[u8],
    work: impl FnOnce(&mut Kept<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let Some(entry) = load_for_update(session, key, ValueType::STREAM)? else {
        return Ok(None);
    };
    work(&mut value::read(&entry.value)?).map(Some)
}

/// What is known of a stream without its entries.
pub(super) fn state(session: &mut Session, key: &[u8]) -> Result<Option<State>, Failure> {
    let entry = load(session, key, ValueType::STREAM)?;
    let state = entry.map(|entry| value::read_state(&entry.value));
    Ok(state.transpose()?)
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
    collection::change(session, key, ValueType::STREAM, |old| {
        let mut stream = old.as_deref().map_or(Ok(Stream::default()), value::read)?;
        let (changed, result) = work(&mut stream, old.is_some())?;
        let change = match changed {
            Changed::No => Change::Nothing,
            Changed::Yes => {
                check_len(value::written_len(&stream))?;
                Change::Set(value::write(&stream))
            }
        };
        Ok((change, result))
    })
}
