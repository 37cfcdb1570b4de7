//! Values that are read, changed and written back.

use bpfdb::{Session, Status, abi};

use super::Failure;
use super::atomic::{Kind, atomically};

const VALUE_MAX: usize = abi::BPFDB_VALUE_MAX as usize;
/// Redis's limit for a value, bytes; its texts speak of it.
pub(super) const REDIS_VALUE_MAX: u64 = 512 << 20;

/// Replaces a value by what `work` makes of it (`None`: it stays), in one
/// transaction. When it expires does not change.
pub(super) fn change<T>(
    session: &mut Session,
    key: &[u8],
    mut work: impl FnMut(Option<Vec<u8>>) -> Result<(Option<Vec<u8>>, T), Failure>,
) -> Result<T, Failure> {
    atomically(session, Kind::Write, |session| {
        let old = session.entry_for_update(key)?;
        let expires_at = old.as_ref().and_then(|old| old.expires_at);
        let (new, result) = work(old.map(|old| old.value))?;
        if let Some(new) = new {
            session.set_entry(key, &new, expires_at)?;
        }
        Ok(result)
    })
}

/// May a value be so long? Asked before memory is taken for it.
pub(super) fn check_len(len: u64) -> Result<(), Failure> {
    if len > REDIS_VALUE_MAX {
        return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
    }
    if len > VALUE_MAX as u64 {
        return Err(Status::ValueTooLarge.into());
    }
    Ok(())
}
