//! What DUMP gives and RESTORE takes: Redis's format of a value in a file,
//!
//! ```text
//! type (0: string) | string | version, 2 bytes | CRC-64, 8 bytes
//! ```
//!
//! numbers with the lowest byte first. A string begins with a length, in 6, 14,
//! 32 or 64 bits, or with the mark of an integer or of compressed bytes.

mod crc;
mod lzf;

use crate::values::integer;

/// That of Redis 7.0.
const VERSION: u16 = 10;
const FOOTER: usize = 10;
/// Bytes of a payload beside those of the value.
const OVERHEAD_MAX: usize = 16;
const TYPE_STRING: u8 = 0;
/// Longest text that is kept as an integer.
const INTEGER_MAX: usize = 11;
const VALUE_MAX: u64 = bpfdb::abi::BPFDB_LARGE_MAX as u64;

/// Why a payload is not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Of a later version, or changed on its way.
    Envelope,
    /// Not a string, or not a whole one.
    Content,
    /// A string that is longer than values may be.
    TooLong,
}

pub(crate) fn encode(value: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(value.len() + OVERHEAD_MAX);
    payload.push(TYPE_STRING);
    if !encode_integer(&mut payload, value) {
        encode_len(&mut payload, value.len());
        payload.extend_from_slice(value);
    }
    payload.extend_from_slice(&VERSION.to_le_bytes());
    let crc = crc::crc64(&payload);
    payload.extend_from_slice(&crc.to_le_bytes());
    payload
}

fn encode_len(payload: &mut Vec<u8>, len: usize) {
    match len {
        0..0x40 => payload.push(len as u8),
        0x40..0x4000 => payload.extend_from_slice(&[0x40 | (len >> 8) as u8, len as u8]),
        _ => {
            payload.push(0x80);
            payload.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

/// The same value in fewer bytes, if it is a small number.
fn encode_integer(payload: &mut Vec<u8>, value: &[u8]) -> bool {
    let number = match integer::parse(value) {
        Some(number) if value.len() <= INTEGER_MAX => number,
        _ => return false,
    };
    if let Ok(number) = i8::try_from(number) {
        payload.extend_from_slice(&[0xc0, number as u8]);
    } else if let Ok(number) = i16::try_from(number) {
        payload.push(0xc1);
        payload.extend_from_slice(&number.to_le_bytes());
    } else if let Ok(number) = i32::try_from(number) {
        payload.push(0xc2);
        payload.extend_from_slice(&number.to_le_bytes());
    } else {
        return false;
    }
    true
}

pub(crate) fn decode(payload: &[u8]) -> Result<Vec<u8>, Damage> {
    let content = checked(payload).ok_or(Damage::Envelope)?;
    match content.split_first() {
        Some((&TYPE_STRING, content)) => Reader(content).string(),
        _ => Err(Damage::Content),
    }
}

/// What lies before version and checksum, if both are right.
fn checked(payload: &[u8]) -> Option<&[u8]> {
    let (content, footer) = payload.split_at_checked(payload.len().checked_sub(FOOTER)?)?;
    let version = u16::from_le_bytes(footer[..2].try_into().ok()?);
    let crc = u64::from_le_bytes(footer[2..].try_into().ok()?);
    let right = version <= VERSION && crc == crc::crc64(&payload[..payload.len() - 8]);
    right.then_some(content)
}

/// What is left of the content.
struct Reader<'a>(&'a [u8]);

enum Head {
    Len(u64),
    /// How the bytes are encoded.
    Encoded(u8),
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: u64) -> Result<&'a [u8], Damage> {
        let len = usize::try_from(len).map_err(|_| Damage::Content)?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Damage::Content)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let bytes = self.take(N as u64)?;
        Ok(bytes.try_into().expect("as long as asked for"))
    }

    fn head(&mut self) -> Result<Head, Damage> {
        let [first] = self.array()?;
        Ok(match (first >> 6, first) {
            (0, _) => Head::Len(first.into()),
            (1, _) => Head::Len(u64::from(first & 0x3f) << 8 | u64::from(self.array::<1>()?[0])),
            (2, 0x80) => Head::Len(u32::from_be_bytes(self.array()?).into()),
            (2, 0x81) => Head::Len(u64::from_be_bytes(self.array()?)),
            (2, _) => return Err(Damage::Content),
            _ => Head::Encoded(first & 0x3f),
        })
    }

    fn len(&mut self) -> Result<u64, Damage> {
        match self.head()? {
            Head::Len(len) => Ok(len),
            Head::Encoded(_) => Err(Damage::Content),
        }
    }

    fn string(&mut self) -> Result<Vec<u8>, Damage> {
        let number: i32 = match self.head()? {
            Head::Len(len) => {
                let bytes = self.take(len)?;
                return fits(len).map(|()| bytes.to_vec());
            }
            Head::Encoded(0) => i8::from_le_bytes(self.array()?).into(),
            Head::Encoded(1) => i16::from_le_bytes(self.array()?).into(),
            Head::Encoded(2) => i32::from_le_bytes(self.array()?),
            Head::Encoded(3) => return self.compressed(),
            Head::Encoded(_) => return Err(Damage::Content),
        };
        Ok(number.to_string().into_bytes())
    }

    fn compressed(&mut self) -> Result<Vec<u8>, Damage> {
        let (short, long) = (self.len()?, self.len()?);
        let bytes = self.take(short)?;
        fits(long)?;
        lzf::decompress(bytes, long as usize).ok_or(Damage::Content)
    }
}

fn fits(len: u64) -> Result<(), Damage> {
    if len > VALUE_MAX {
        Err(Damage::TooLong)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(decode(&encode(value)).as_deref(), Ok(value));
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
        assert_eq!(decode(REDIS_LONG), Ok(b"ab".repeat(50)));
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
        let mut payload = [content, &VERSION.to_le_bytes()].concat();
        payload.extend_from_slice(&crc::crc64(&payload).to_le_bytes());
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
