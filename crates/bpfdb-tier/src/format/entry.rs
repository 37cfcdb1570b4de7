//! One value in a run, at a multiple of 16 bytes.
//!
//! ```text
//!       0  CRC-32C of all that follows, up to the end of the value, 32 bits
//!       4  length of the key, 16 bits
//!       6  type of the value, 8 bits (include/bpfdb/form.h)
//!       7  zero
//!       8  length of the value, 64 bits
//!      16  timestamp: that of the version is not later, 64 bits
//!      24  number of the run, 64 bits
//!      32  place of this entry in the run, 64 bits
//!      40  identity of the engine, 64 bits
//!      48  the stored key, then the value; zeros to a multiple of 16 bytes
//! ```
//! The version names run, place, length and checksum. An entry is valid if all of them and the key
//! are those.

use bpfdb::{COLD_GRAIN, ColdPlace};

use super::run::RunId;
use super::{Invalid, bytes_at, u32_at, u64_at};

/// Bytes of an entry before its key.
pub(crate) const HEAD: usize = 48;

/// Bytes of an entry, without the zeros at its end.
pub fn size(key: &[u8], len: u64) -> u64 {
    (HEAD + key.len()) as u64 + len
}

/// The same with them.
pub fn room(key: &[u8], len: u64) -> u64 {
    size(key, len).next_multiple_of(COLD_GRAIN)
}

/// Appends an entry that will be at `offset` of the run. Where the engine finds it.
///
/// # Panics
/// The key is longer than 65,535 bytes.
pub fn encode(
    run: RunId,
    offset: u64,
    key: &[u8],
    kind: u8,
    timestamp: u64,
    value: &[u8],
    out: &mut Vec<u8>,
) -> ColdPlace {
    let start = out.len();
    let key_len = u16::try_from(key.len()).expect("keys have at most 512 bytes");
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&key_len.to_le_bytes());
    out.extend_from_slice(&[kind, 0]);
    out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    for word in [timestamp, run.number, offset, run.engine] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(key);
    out.extend_from_slice(value);
    let checksum = crc32c::crc32c(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    let end = start + room(key, value.len() as u64) as usize;
    out.resize(end, 0);
    ColdPlace {
        run: run.number,
        offset,
        checksum,
    }
}

/// An entry that was found without knowing its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Bytes of the value.
    pub len: u64,
    /// Bytes of the entry, without the zeros at its end.
    pub size: u64,
}

/// What the head of an entry says, if `bytes` begin with one, at `offset` of the run. The entry may end behind
/// `bytes`, and be damaged.
pub fn head(bytes: &[u8], run: RunId, offset: u64) -> Option<Found> {
    let is_here = u64_at(bytes, 24).ok()? == run.number
        && u64_at(bytes, 32).ok()? == offset
        && u64_at(bytes, 40).ok()? == run.engine;
    let key_len = u16::from_le_bytes(bytes_at(bytes, 4).ok()?);
    let len = u64_at(bytes, 8).ok()?;
    let size = len.checked_add(HEAD as u64 + u64::from(key_len))?;
    is_here.then_some(Found { len, size })
}

/// The entry with which `bytes` begin, at `offset` of the run; `None`: there is none, or it is damaged.
pub fn find(bytes: &[u8], run: RunId, offset: u64) -> Option<Found> {
    let found = head(bytes, run, offset)?;
    let entry = bytes.get(..usize::try_from(found.size).ok()?)?;
    let is_whole = u32_at(entry, 0).ok()? == crc32c::crc32c(&entry[4..]);
    is_whole.then_some(found)
}

/// An entry that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The stored key.
    pub key: &'a [u8],
    /// `BPFDB_TYPE_`.
    pub kind: u8,
    pub value: &'a [u8],
    /// The version's timestamp is not later.
    pub timestamp: u64,
}

/// The same with what the entry has.
pub fn read(bytes: &[u8], run: RunId, offset: u64) -> Option<Entry<'_>> {
    let found = find(bytes, run, offset)?;
    let entry = bytes.get(HEAD..usize::try_from(found.size).ok()?)?;
    let key_len = entry.len().checked_sub(usize::try_from(found.len).ok()?)?;
    let (key, value) = entry.split_at(key_len);
    Some(Entry {
        key,
        kind: bytes[6],
        value,
        timestamp: u64_at(bytes, 16).ok()?,
    })
}

/// The value of an entry of `len` bytes for this key, at this place.
///
/// # Errors
/// It is not that entry, or damaged.
pub fn decode<'a>(
    bytes: &'a [u8],
    engine: u64,
    place: ColdPlace,
    key: &[u8],
    len: u64,
) -> Result<&'a [u8], Invalid> {
    let size = usize::try_from(size(key, len)).map_err(|_| Invalid::Short)?;
    let entry = bytes.get(..size).ok_or(Invalid::Short)?;
    let checksum = crc32c::crc32c(&entry[4..]);
    if u32_at(entry, 0)? != checksum || checksum != place.checksum {
        return Err(Invalid::Checksum);
    }
    let key_len = usize::from(u16::from_le_bytes(bytes_at(entry, 4)?));
    let found = [
        ("length", u64_at(entry, 8)?, len),
        ("run", u64_at(entry, 24)?, place.run),
        ("place", u64_at(entry, 32)?, place.offset),
        ("engine", u64_at(entry, 40)?, engine),
    ];
    if let Some((what, ..)) = found.iter().find(|(_, found, wanted)| found != wanted) {
        return Err(Invalid::Field(what));
    }
    match key_len == key.len() && entry[HEAD..HEAD + key_len] == *key {
        true => Ok(&entry[HEAD + key_len..]),
        false => Err(Invalid::Field("key")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: RunId = RunId {
        engine: 7,
        number: 3,
    };

    #[test]
    fn an_entry_is_read_without_knowing_its_key() {
        let mut out = Vec::new();
        encode(RUN, 4096, b"key", 5, 9, b"the value", &mut out);
        let entry = Entry {
            key: b"key",
            kind: 5,
            value: b"the value",
            timestamp: 9,
        };
        assert_eq!(read(&out, RUN, 4096), Some(entry));
        assert_eq!(read(&out, RUN, 8192), None);
        assert_eq!(read(&out[..50], RUN, 4096), None);
        out[50] ^= 1;
        assert_eq!(read(&out, RUN, 4096), None);
    }

    #[test]
    fn an_entry_is_believed_by_all_that_names_it() {
        let mut out = Vec::new();
        let place = encode(RUN, 4096, b"key", 1, 9, b"the value", &mut out);
        assert_eq!(out.len() % 16, 0);
        assert_eq!(decode(&out, 7, place, b"key", 9), Ok(&b"the value"[..]));
        for flipped in 0..size(b"key", 9) as usize * 8 {
            let mut damaged = out.clone();
            damaged[flipped / 8] ^= 1 << (flipped % 8);
            assert_eq!(
                decode(&damaged, 7, place, b"key", 9),
                Err(Invalid::Checksum),
                "bit {flipped}"
            );
        }
        let elsewhere = ColdPlace {
            offset: 8192,
            ..place
        };
        assert_eq!(
            decode(&out, 7, elsewhere, b"key", 9),
            Err(Invalid::Field("place"))
        );
        assert_eq!(
            decode(&out, 8, place, b"key", 9),
            Err(Invalid::Field("engine"))
        );
        assert_eq!(
            decode(&out, 7, place, b"yek", 9),
            Err(Invalid::Field("key"))
        );
        assert!(decode(&out, 7, place, b"key", 8).is_err());
        assert_eq!(decode(&out[..20], 7, place, b"key", 9), Err(Invalid::Short));
    }
}
