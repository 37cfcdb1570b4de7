//! What DUMP gives and RESTORE takes: one value, as it stands in a file,
//!
//! ```text
//! type (0: string) | string, or what a file has of a collection | version, 2 bytes | CRC-64, 8 bytes
//! ```
//!
//! numbers with the lowest byte first.

use bpfdb::ValueType;
use bpfdb_values::run::Malformed;

use super::collection::read::{self, Collection, LAST_OF_7_0};
use super::collection::write;
use super::{Dialect, TYPE_STRING, VERSION_WRITTEN, string};
use crate::collection::{kind_of, type_of};
use crate::crc64::crc64;
use crate::error::Error;
use crate::limits::VALUE_MAX;
use crate::source::{Slice, Source};

const FOOTER: usize = 10;
/// Bytes of a payload beside those of the value.
const OVERHEAD_MAX: usize = 16;
/// What a byte of compressed input gives at most: three give 264.
const EXPANSION_MAX: u64 = 88;

/// Why a payload is not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Of a later version, or changed on its way.
    Envelope,
    /// Of another type, or not whole.
    Content,
    /// Longer than values may be.
    TooLong,
}

/// The payload of a string, which is not compressed.
pub fn encode(value: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(value.len() + OVERHEAD_MAX);
    payload.push(TYPE_STRING);
    string::put(&mut payload, value);
    seal(&mut payload);
    payload
}

/// The payload of a value of any type, as the engine keeps it.
///
/// # Errors
/// The bytes of a collection that are no packed run, and a type that Redis does not have.
pub fn encode_typed(kind: ValueType, value: &[u8]) -> Result<Vec<u8>, Malformed> {
    if kind == ValueType::STRING {
        return Ok(encode(value));
    }
    let kind = kind_of(kind).ok_or(Malformed::TYPE)?;
    let written = write::write(kind, value)?;
    let mut payload = Vec::with_capacity(written.bytes.len() + OVERHEAD_MAX);
    payload.push(written.number);
    payload.extend_from_slice(&written.bytes);
    seal(&mut payload);
    Ok(payload)
}

/// Adds version and checksum.
pub(super) fn seal(payload: &mut Vec<u8>) {
    payload.extend_from_slice(&VERSION_WRITTEN.to_le_bytes());
    let sum = crc64(payload);
    payload.extend_from_slice(&sum.to_le_bytes());
}

/// The type and the bytes, as the engine keeps them, of what a payload of Redis 7.0 or older has.
pub fn decode(payload: &[u8]) -> Result<(ValueType, Vec<u8>), Damage> {
    let content = checked(payload).ok_or(Damage::Envelope)?;
    match content.split_first() {
        Some((&TYPE_STRING, content)) => Ok((ValueType::STRING, decode_string(content)?)),
        Some((&number, content)) => decode_collection(number, content),
        None => Err(Damage::Content),
    }
}

fn decode_collection(number: u8, content: &[u8]) -> Result<(ValueType, Vec<u8>), Damage> {
    let kind = read::kind(Dialect::Redis, number).filter(|_| number <= LAST_OF_7_0);
    let kind = kind.ok_or(Damage::Content)?;
    let mut source = Source::new(Slice(content));
    match read::read(&mut source, Dialect::Redis, number) {
        Ok(Collection::Run(run)) => Ok((type_of(kind), run)),
        Ok(Collection::Empty | Collection::Expiring) => Err(Damage::Content),
        Err(Error::Foreign { .. }) => Err(Damage::TooLong),
        Err(_) => Err(Damage::Content),
    }
}

/// What lies before version and checksum, if both are right.
pub(super) fn checked(payload: &[u8]) -> Option<&[u8]> {
    let (content, footer) = payload.split_at_checked(payload.len().checked_sub(FOOTER)?)?;
    let version = u16::from_le_bytes(footer[..2].try_into().ok()?);
    let sum = u64::from_le_bytes(footer[2..].try_into().ok()?);
    let right = version <= VERSION_WRITTEN && sum == crc64(&payload[..payload.len() - 8]);
    right.then_some(content)
}

fn decode_string(content: &[u8]) -> Result<Vec<u8>, Damage> {
    let mut source = Source::new(Slice(content));
    read_string(&mut source, content.len() as u64, VALUE_MAX)
}

/// The next string of a payload of `size` bytes, if it has at most `most` bytes.
pub(super) fn read_string(
    source: &mut Source<Slice<'_>>,
    size: u64,
    most: u64,
) -> Result<Vec<u8>, Damage> {
    let head = string::read_head(source).map_err(|_| Damage::Content)?;
    let stored = head.stored_len();
    if stored > size - source.offset() {
        return Err(Damage::Content);
    }
    if head.len > most {
        return Err(Damage::TooLong);
    }
    // A promise alone takes no memory.
    let room = head.len.min(stored.saturating_mul(EXPANSION_MAX));
    let mut value = Vec::with_capacity(room as usize);
    string::read_body(source, &head, |part| {
        value.extend_from_slice(part);
        Ok(())
    })
    .map_err(|_| Damage::Content)?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(value: &[u8]) -> Result<(ValueType, Vec<u8>), Damage> {
        Ok((ValueType::STRING, value.to_vec()))
    }

    #[test]
    fn values_come_back() {
        let long = vec![b'x'; 100_000];
        let values: [&[u8]; 12] = [
            b"",
            b"a",
            b"0",
            b"-128",
            b"128",
            b"-32769",
            b"2147483647",
            b"2147483648",
            b"007",
            &[b'y'; 63],
            &[b'z'; 64],
            &long,
        ];
        for value in values {
            assert_eq!(decode(&encode(value)), string(value));
        }
    }

    /// Made by Redis 7.0.
    const REDIS_10: &[u8] = b"\x00\xc0\x0a\x0a\x00\x6e\x9f\x57\x45\x0e\xae\x63\xbb";
    const REDIS_HELLO: &[u8] = b"\x00\x05hello\x0a\x00\x63\x72\xdf\x76\x65\x34\x20\x0a";
    const REDIS_LONG: &[u8] = b"\x00\xc3\x0a\x40\x64\x02aba\xe0\x56\x01\x01ab\x0a\x00\
                                \x17\x38\x3d\x94\x20\x96\xd8\x63";

    #[test]
    fn what_redis_gives() {
        assert_eq!(encode(b"10"), REDIS_10);
        assert_eq!(encode(b"hello"), REDIS_HELLO);
        assert_eq!(decode(REDIS_LONG), string(&b"ab".repeat(50)));
    }

    #[test]
    fn damage() {
        let good = encode(b"hello");
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 1;
            assert_eq!(decode(&bad), Err(Damage::Envelope), "byte {i}");
            assert_eq!(decode(&good[..i]), Err(Damage::Envelope));
        }
    }

    fn sealed(content: &[u8]) -> Vec<u8> {
        let mut payload = [content, &VERSION_WRITTEN.to_le_bytes()].concat();
        payload.extend_from_slice(&crc64(&payload).to_le_bytes());
        payload
    }

    #[test]
    fn strings_that_are_not_whole() {
        for content in [
            &[1, 0][..],
            &[],
            &[0],
            &[0, 5, b'a'],
            &[0, 0x40],
            &[0, 0x82, 0, 0, 0, 0],
            &[0, 0xc0],
            &[0, 0xc5, 0],
            &[0, 0xc3, 2, 100, 0, b'a'],
            &[0, 0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert_eq!(
                decode(&sealed(content)),
                Err(Damage::Content),
                "{content:?}"
            );
        }
        // A promise of two gigabytes in a few bytes.
        let huge = [0, 0xc3, 2, 0x80, 0x7f, 0xff, 0xff, 0xff, 0, b'a'];
        assert_eq!(decode(&sealed(&huge)), Err(Damage::TooLong));
    }
}
