//! Lengths and strings: read in parts, so that a long one is never held whole.

use super::lzf;
use crate::error::{Error, Result, damaged};
use crate::integer;
use crate::source::{Input, Source};

/// Longest text that is kept as an integer, bytes.
pub(crate) const INTEGER_MAX: usize = 11;

/// How a string is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stored {
    Plain,
    /// Its text.
    Integer(String),
    /// In so many bytes.
    Compressed(u64),
}

/// What precedes the bytes of a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Bytes of the string.
    pub(crate) len: u64,
    stored: Stored,
}

impl Head {
    /// Bytes that follow.
    pub(crate) fn stored_len(&self) -> u64 {
        match self.stored {
            Stored::Plain => self.len,
            Stored::Integer(_) => 0,
            Stored::Compressed(len) => len,
        }
    }
}

enum Length {
    Of(u64),
    /// How the bytes are encoded.
    Encoded(u8),
}

fn length<I: Input>(source: &mut Source<I>) -> Result<Length> {
    let at = source.offset();
    let first = source.byte()?;
    Ok(match (first >> 6, first) {
        (0, _) => Length::Of(first.into()),
        (1, _) => Length::Of(u64::from(first & 0x3f) << 8 | u64::from(source.byte()?)),
        (2, 0x80) => Length::Of(u32::from_be_bytes(source.array()?).into()),
        (2, 0x81) => Length::Of(u64::from_be_bytes(source.array()?)),
        (2, _) => return Err(damaged(at, format!("{first:#04x} begins no length"))),
        _ => Length::Encoded(first & 0x3f),
    })
}

pub(crate) fn read_len<I: Input>(source: &mut Source<I>) -> Result<u64> {
    let at = source.offset();
    match length(source)? {
        Length::Of(len) => Ok(len),
        Length::Encoded(_) => Err(damaged(at, "a string where a length should be")),
    }
}

pub(crate) fn read_head<I: Input>(source: &mut Source<I>) -> Result<Head> {
    let at = source.offset();
    let integer: i32 = match length(source)? {
        Length::Of(len) => {
            let stored = Stored::Plain;
            return Ok(Head { len, stored });
        }
        Length::Encoded(0) => i8::from_le_bytes(source.array()?).into(),
        Length::Encoded(1) => i16::from_le_bytes(source.array()?).into(),
        Length::Encoded(2) => i32::from_le_bytes(source.array()?),
        Length::Encoded(3) => {
            let stored = Stored::Compressed(read_len(source)?);
            let len = read_len(source)?;
            return Ok(Head { len, stored });
        }
        Length::Encoded(other) => {
            return Err(damaged(at, format!("a string of the unknown form {other}")));
        }
    };
    let text = integer.to_string();
    Ok(Head {
        len: text.len() as u64,
        stored: Stored::Integer(text),
    })
}

/// Shows the string that follows its head, in parts.
pub(crate) fn read_body<I: Input>(
    source: &mut Source<I>,
    head: &Head,
    mut show: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    match &head.stored {
        Stored::Plain => source.parts(head.len, show),
        Stored::Integer(text) => show(text.as_bytes()),
        Stored::Compressed(stored) => lzf::decompress(source, *stored, head.len, &mut show),
    }
}

/// The next string, if it has at most `most` bytes; else `None`, and it is passed.
pub(crate) fn read_short<I: Input>(
    source: &mut Source<I>,
    most: usize,
    bytes: &mut Vec<u8>,
) -> Result<bool, Error> {
    bytes.clear();
    let head = read_head(source)?;
    if head.len > most as u64 {
        source.skip(head.stored_len())?;
        return Ok(false);
    }
    read_body(source, &head, |part| {
        bytes.extend_from_slice(part);
        Ok(())
    })?;
    Ok(true)
}

/// How long the next string is; of its bytes the first ones are kept, `most` of them.
pub(crate) fn read_beginning<I: Input>(
    source: &mut Source<I>,
    most: usize,
    bytes: &mut Vec<u8>,
) -> Result<u64> {
    bytes.clear();
    let head = read_head(source)?;
    read_body(source, &head, |part| {
        let room = most - bytes.len();
        bytes.extend_from_slice(&part[..part.len().min(room)]);
        Ok(())
    })?;
    Ok(head.len)
}

/// Passes a string without a look at its bytes.
pub(crate) fn skip<I: Input>(source: &mut Source<I>) -> Result<()> {
    let head = read_head(source)?;
    source.skip(head.stored_len())
}

pub(crate) fn put_len(out: &mut Vec<u8>, len: u64) {
    match len {
        0..0x40 => out.push(len as u8),
        0x40..0x4000 => out.extend_from_slice(&[0x40 | (len >> 8) as u8, len as u8]),
        0x4000..0x1_0000_0000 => {
            out.push(0x80);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
}

/// A string, in the fewest bytes that it takes without compression.
pub(crate) fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    if !put_integer(out, bytes) {
        put_len(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }
}

/// The same text in fewer bytes, if it is a small number.
fn put_integer(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let number = match integer::parse(bytes) {
        Some(number) if bytes.len() <= INTEGER_MAX => number,
        _ => return false,
    };
    if let Ok(number) = i8::try_from(number) {
        out.extend_from_slice(&[0xc0, number as u8]);
    } else if let Ok(number) = i16::try_from(number) {
        out.push(0xc1);
        out.extend_from_slice(&number.to_le_bytes());
    } else if let Ok(number) = i32::try_from(number) {
        out.push(0xc2);
        out.extend_from_slice(&number.to_le_bytes());
    } else {
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Vec<u8> {
        let mut source = Source::plain(bytes);
        let mut string = Vec::new();
        assert!(read_short(&mut source, usize::MAX, &mut string).expect("a string"));
        assert!(source.is_at_end().expect("no error"));
        string
    }

    #[test]
    fn every_form_of_a_length() {
        for len in [0, 1, 63, 64, 16383, 16384, 1 << 20] {
            let mut bytes = Vec::new();
            put(&mut bytes, &vec![b'x'; len]);
            assert_eq!(read(&bytes).len(), len);
        }
        // That of 64 bits is written for no value of ours.
        assert_eq!(read(b"\x81\0\0\0\0\0\0\0\x02ab"), b"ab");
        let mut long = Vec::new();
        put_len(&mut long, 1 << 32);
        assert_eq!(
            read_len(&mut Source::plain(&long[..])).expect("a length"),
            1 << 32
        );
    }

    #[test]
    fn integers_take_few_bytes() {
        for (text, len) in [
            ("0", 2),
            ("-128", 2),
            ("128", 3),
            ("-32769", 5),
            ("2147483647", 5),
            ("2147483648", 11),
            ("-2147483648", 5),
            ("007", 4),
            ("-0", 3),
        ] {
            let mut bytes = Vec::new();
            put(&mut bytes, text.as_bytes());
            assert_eq!((bytes.len(), read(&bytes)), (len, text.into()), "{text}");
        }
    }
}
