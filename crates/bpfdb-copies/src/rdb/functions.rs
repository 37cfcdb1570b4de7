//! The payload of FUNCTION DUMP and FUNCTION RESTORE: all libraries, as they stand in a file,
//!
//! ```text
//! (0xf5 | text of a library, a string)… | version, 2 bytes | CRC-64, 8 bytes
//! ```
//!
//! numbers with the lowest byte first. The engine keeps the server's libraries in this form, as
//! the value of [`bpfdb::FUNCTIONS_KEY`].

use super::payload::{Damage as StringDamage, checked, read_string, seal};
use super::{FUNCTION, OLD_FUNCTION, string};
use crate::source::{Slice, Source};

/// Bytes of all libraries together.
pub const LIBRARIES_MAX: usize = 16 << 20;

/// Why a payload is not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Of a later version, or changed on its way.
    Envelope,
    /// Something else than libraries is in it.
    Type,
    /// A library in the form of a release candidate of Redis 7.0.
    Old,
    /// Not whole.
    Content,
    /// More than [`LIBRARIES_MAX`].
    TooLong,
}

/// The payload of libraries, whose texts are not compressed.
pub fn encode<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    for text in texts {
        put(&mut payload, text);
    }
    seal(&mut payload);
    payload
}

/// One library, as it stands in a file too.
pub(super) fn put(out: &mut Vec<u8>, text: &[u8]) {
    out.push(FUNCTION);
    string::put(out, text);
}

/// The texts of the libraries in a payload of Redis 7.0, or ours.
pub fn decode(payload: &[u8]) -> Result<Vec<Vec<u8>>, Damage> {
    // Before the sum is computed, which takes long of half a gigabyte. Texts are not longer here than
    // where they are restored, but for their lengths.
    if payload.len() > 2 * LIBRARIES_MAX {
        return Err(Damage::TooLong);
    }
    let content = checked(payload).ok_or(Damage::Envelope)?;
    let size = content.len() as u64;
    let mut source = Source::new(Slice(content));
    let (mut texts, mut left) = (Vec::new(), LIBRARIES_MAX as u64);
    while source.offset() < size {
        match source.byte().map_err(|_| Damage::Content)? {
            FUNCTION => {}
            OLD_FUNCTION => return Err(Damage::Old),
            _ => return Err(Damage::Type),
        }
        let text = read_string(&mut source, size, left).map_err(|damage| match damage {
            StringDamage::TooLong => Damage::TooLong,
            StringDamage::Envelope | StringDamage::Content => Damage::Content,
        })?;
        left -= text.len() as u64;
        texts.push(text);
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by Redis 7.0, with one text that is compressed.
    const OF_REDIS: &[u8] = b"\xf5?#!lua\tname=tab\r\nredis.register_function('tabf', function() end)\xf5\xc3=@\x9f\x0b#!lua name=x\xe0Z\x00\x1f\nredis.register_function('long',\x00 \xe0\x00\x10\x05) end)";

    #[test]
    fn libraries_come_back() {
        let texts: [&[u8]; 3] = [b"#!lua name=a\n", b"12", &[b'x'; 70_000]];
        assert_eq!(decode(&encode(texts)).expect("fine"), texts);
        assert_eq!(decode(&encode([])), Ok(Vec::new()));
        // What Redis 7.0 gives without a library.
        assert_eq!(encode([]), b"\x0a\x00\x5d\x9b\x5c\x40\x0f\x7f\xa2\xda");
    }

    #[test]
    fn what_redis_has_compressed_is_read() {
        let mut payload = OF_REDIS.to_vec();
        seal(&mut payload);
        let texts = decode(&payload).expect("fine");
        let name = "x".repeat(100);
        let long = format!("#!lua name={name}\nredis.register_function('long', function() end)");
        assert_eq!(texts[1], long.as_bytes());
    }

    #[test]
    fn damage() {
        let good = encode([&b"#!lua name=a\n"[..]]);
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 1;
            assert_eq!(decode(&bad), Err(Damage::Envelope), "byte {i}");
            assert_eq!(decode(&good[..i]), Err(Damage::Envelope));
        }
        for (content, damage) in [
            (&[0, 1, b'a'][..], Damage::Type),
            (&[OLD_FUNCTION, 1, b'a'], Damage::Old),
            (&[FUNCTION], Damage::Content),
            (&[FUNCTION, 5, b'a'], Damage::Content),
            (
                &[FUNCTION, 0xc3, 2, 0x80, 0x7f, 0xff, 0xff, 0xff, 0, b'a'],
                Damage::TooLong,
            ),
        ] {
            let mut payload = content.to_vec();
            seal(&mut payload);
            assert_eq!(decode(&payload), Err(damage), "{content:?}");
        }
    }
}
