//! The payload of DUMP and RESTORE: one value, as it stands in a file,
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
use super::{Dialect, TYPE_STRING, VERSION_WRITTEN, stream, string};
use crate::collection::{Content, content_of, type_of};
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
    let (number, bytes) = match content_of(kind).ok_or(Malformed::TYPE)? {
        Content::String => return Ok(encode(value)),
        Content::Collection(kind) => {
            let written = write::write(kind, value)?;
            (written.number, written.bytes)
        }
        Content::Stream => (stream::WRITTEN, stream::write(value)?),
    };
    let mut payload = Vec::with_capacity(bytes.len() + OVERHEAD_MAX);
    payload.push(number);
    payload.extend_from_slice(&bytes);
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
        Some((&number, content)) if stream::is_stream(number) && number <= stream::WRITTEN => {
            decode_stream(number, content)
        }
        Some((&number, content)) => decode_collection(number, content),
        None => Err(Damage::Content),
    }
}

fn decode_stream(number: u8, content: &[u8]) -> Result<(ValueType, Vec<u8>), Damage> {
    let mut source = Source::new(Slice(content));
    match stream::read(&mut source, number) {
        Ok(bytes) => Ok((ValueType::STREAM, bytes)),
        Err(Error::Foreign { .. }) => Err(Damage::TooLong),
        Err(_) => Err(Damage::Content),
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
    use bpfdb_values::limits::Kind;
    use bpfdb_values::run::Run;

    use super::*;
    use crate::collection::{self, Builder, kind_of};

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

    /// A word of a command in the file of payloads: `x*40` stands for 40 times x.
    fn word(word: &str) -> Vec<u8> {
        let (text, times) = word.split_once('*').unwrap_or((word, "1"));
        text.repeat(times.parse().expect("a number")).into_bytes()
    }

    /// The run of what a command has made.
    fn made_by(kind: Kind, command: &str) -> Vec<u8> {
        let mut words: Vec<_> = command.split(' ').skip(2).map(word).collect();
        if kind == Kind::SortedSet {
            // ZADD has the scores first.
            words.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
        }
        let mut builder = Builder::new(kind);
        for word in &words {
            builder.string(word).expect("there is room");
        }
        builder.finish().expect("a collection")
    }

    fn entries(kind: ValueType, run: &[u8]) -> Vec<(&[u8], &[u8])> {
        let run = Run::parse(run).expect("a run");
        let mut entries: Vec<_> = run.iter().map(|entry| entry.expect("sound")).collect();
        // Tables of Redis have no order.
        if matches!(kind, ValueType::HASH | ValueType::SET) {
            entries.sort_unstable();
        }
        entries
    }

    /// Lines of tests/fixtures/payloads-7.0.txt.
    fn payloads_of_redis() -> Vec<(ValueType, bool, &'static str, Vec<u8>)> {
        let text = include_str!("../../tests/fixtures/payloads-7.0.txt");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let payloads = lines.map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [kind, settings, command, digits] = fields[..] else {
                panic!("{line}");
            };
            let kinds = [Kind::Hash, Kind::List, Kind::Set, Kind::SortedSet].map(type_of);
            let kind = kinds.into_iter().find(|one| one.name() == kind);
            let payload = (0..digits.len()).step_by(2);
            let payload = payload.map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
            let payload = payload.collect::<Result<_, _>>().expect("digits");
            (kind.expect("a type"), settings == "-", command, payload)
        });
        payloads.collect()
    }

    #[test]
    fn collections_of_redis() {
        for (kind, is_plain, command, payload) in payloads_of_redis() {
            let (found, run) = decode(&payload).unwrap_or_else(|why| panic!("{command}: {why:?}"));
            assert_eq!(found, kind, "{command}");
            let made = made_by(kind_of(kind).expect("a collection"), command);
            assert!(entries(kind, &run) == entries(kind, &made), "{command}");
            let again = encode_typed(kind, &run).expect("a run");
            // With Redis's own settings, and without compression, there is one payload only.
            assert!(
                !is_plain || again == payload,
                "{command}: {}",
                again.escape_ascii()
            );
            let (_, back) = decode(&again).expect("right");
            assert!(entries(kind, &back) == entries(kind, &run), "{command}");
        }
    }

    /// A payload may have any bytes and the checksum of these.
    #[test]
    fn changed_collections_are_no_harm() {
        for (_, _, command, payload) in payloads_of_redis() {
            let content = payload.len() - FOOTER;
            for at in 0..content.min(300) {
                for byte in [0, 1, 0x7f, 0x80, 0xc3, 0xf0, 0xfe, 0xff, payload[at] ^ 1] {
                    let mut bad = payload[..content].to_vec();
                    bad[at] = byte;
                    let Ok((kind, run)) = decode(&sealed(&bad)) else {
                        continue;
                    };
                    if let Some(kind) = kind_of(kind) {
                        let checked = collection::checked(kind, &run);
                        assert_eq!(checked, Ok(run), "{command}, byte {at}: {byte}");
                    }
                }
                let cut = decode(&sealed(&payload[..at]));
                assert!(cut.is_err(), "{command} cut at {at}");
            }
        }
    }

    #[test]
    fn collections_that_redis_refuses() {
        for content in [
            // A type of Redis 7.2, a stream without an end, and a module.
            &b"\x14\x0a\x0a\0\0\0\x01\0\x81a\x02\xff"[..],
            b"\x0f\0",
            b"\x07\0",
            // No entry.
            b"\x01\0",
            b"\x02\0",
            b"\x12\0",
            b"\x12\x01\x02\x07\x07\0\0\0\0\0\xff",
            b"\x10\x07\x07\0\0\0\0\0\xff",
            b"\x0b\x08\x02\0\0\0\0\0\0\0",
            // Twice the same, and a score that is no number.
            b"\x02\x02\x01a\x01a",
            b"\x04\x02\x01a\x01b\x01a\x01b",
            b"\x05\x01\x01a\0\0\0\0\0\0\xf8\x7f",
            b"\x03\x01\x01a\xfd",
            b"\x03\x01\x01a\x01x",
            // A field without a value, and a node of an unknown kind.
            b"\x10\x0a\x0a\0\0\0\x01\0\x81a\x02\xff",
            b"\x12\x01\x03\x01a",
            // A promise.
            b"\x01\x81\x7f\xff\xff\xff\xff\xff\xff\xff",
        ] {
            let outcome = decode(&sealed(content));
            assert_eq!(outcome, Err(Damage::Content), "{}", content.escape_ascii());
        }
    }

    /// What older versions of Redis gave.
    #[test]
    fn collections_of_old_times() {
        // Two entries: a, 1.
        let ziplist = b"\x10\0\0\0\x0d\0\0\0\x02\0\0\x01a\x03\xf2\xff";
        let packed = |number: u8| [&[number, ziplist.len() as u8], &ziplist[..]].concat();
        let zipmap = b"\x09\x07\x01\x01a\x01\x001\xff".to_vec();
        let list = [&b"\x0e\x01\x10"[..], ziplist].concat();
        for (content, kind, command) in [
            (packed(10), ValueType::LIST, "RPUSH k a 1"),
            (list, ValueType::LIST, "RPUSH k a 1"),
            (packed(12), ValueType::SORTED_SET, "ZADD k 1 a"),
            (packed(13), ValueType::HASH, "HSET k a 1"),
            (zipmap, ValueType::HASH, "HSET k a 1"),
            (
                b"\x01\x02\x01a\xc0\x01".to_vec(),
                ValueType::LIST,
                "RPUSH k a 1",
            ),
            (
                b"\x03\x01\x01a\x011".to_vec(),
                ValueType::SORTED_SET,
                "ZADD k 1 a",
            ),
            (
                b"\x03\x01\x01a\xff".to_vec(),
                ValueType::SORTED_SET,
                "ZADD k -inf a",
            ),
        ] {
            let run = made_by(kind_of(kind).expect("a collection"), command);
            assert_eq!(
                decode(&sealed(&content)),
                Ok((kind, run)),
                "{}",
                content.escape_ascii()
            );
        }
    }
}
