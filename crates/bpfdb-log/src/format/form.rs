//! The form of a value: length, type and flags in one word. The engine has the same word in
//! memory, so its numbers are read from the engine's header, `include/bpfdb/form.h`.

use crate::format::layout::Invalid;

const HEADER: &str = include_str!("../../../../include/bpfdb/form.h");

const LENGTH_BITS: u32 = number(b"BPFDB_FORM_LENGTH_BITS");
const TYPE_BITS: u32 = number(b"BPFDB_FORM_TYPE_BITS");
const LENGTH_MASK: u32 = (1 << LENGTH_BITS) - 1;
const TYPE_MASK: u32 = (1 << TYPE_BITS) - 1;
const ZERO: u32 = 1 << number(b"BPFDB_FORM_ZERO_BIT");
const LARGE: u32 = 1 << number(b"BPFDB_FORM_LARGE_BIT");
const EXPIRES: u32 = 1 << number(b"BPFDB_FORM_EXPIRES_BIT");
const TYPE_COUNT: u32 = number(b"BPFDB_TYPE_COUNT");
const ABSENT: u32 = (1 << BITS) - 1;

/// Bits of a form.
pub(crate) const BITS: u32 = number(b"BPFDB_FORM_BITS");

/// The longest value that stands in an entry, in bytes.
pub const INLINE_MAX: usize = 1 << (LENGTH_BITS - 1);

/// The type of a value, by its number. The log keeps it with the value, and asks nothing else of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueType(u8);

impl ValueType {
    pub const STRING: Self = Self(number(b"BPFDB_TYPE_STRING") as u8);
    pub const HASH: Self = Self(number(b"BPFDB_TYPE_HASH") as u8);
    /// Of tests alone.
    pub const TEST: Self = Self(number(b"BPFDB_TYPE_TEST") as u8);

    /// `None`: no type of this version has this number.
    pub fn from_code(code: u8) -> Option<Self> {
        let is_known = u32::from(code) < TYPE_COUNT || code == Self::TEST.0;
        is_known.then_some(Self(code))
    }

    /// The number of the type in a form.
    pub fn code(self) -> u8 {
        self.0
    }
}

/// What a form says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Deleted,
    /// So many bytes.
    Bytes(ValueType, u32),
    /// More of them, which stand elsewhere.
    Large(ValueType),
}

/// The form of a value, and whether it expires.
pub(crate) fn encode(content: Content, expires: bool) -> u32 {
    let flags = if expires { EXPIRES } else { 0 };
    match content {
        Content::Deleted => ABSENT,
        Content::Large(kind) => LARGE | of_type(kind) | flags,
        Content::Bytes(kind, len) => {
            assert!(len as usize <= INLINE_MAX, "length of a value");
            assert!(
                len > 0 || kind == ValueType::STRING,
                "a value that is no string has bytes"
            );
            len | of_type(kind) | flags
        }
    }
}

fn of_type(kind: ValueType) -> u32 {
    u32::from(kind.0) << LENGTH_BITS
}

/// # Errors
/// A bit or a type that this version does not know.
pub(crate) fn decode(form: u32) -> Result<(Content, bool), Invalid> {
    if form == ABSENT {
        return Ok((Content::Deleted, false));
    }
    let expires = form & EXPIRES != 0;
    let (len, code) = (form & LENGTH_MASK, form >> LENGTH_BITS & TYPE_MASK);
    let kind = || ValueType::from_code(code as u8).ok_or(Invalid::Field("type"));
    let content = match form & (ZERO | LARGE) {
        LARGE if len == 0 => Content::Large(kind()?),
        0 if len as usize <= INLINE_MAX => {
            let kind = kind()?;
            if kind != ValueType::STRING && len == 0 {
                return Err(Invalid::Field("form"));
            }
            Content::Bytes(kind, len)
        }
        _ => return Err(Invalid::Field("form")),
    };
    Ok((content, expires))
}

/// The number that the header defines this name as.
const fn number(name: &[u8]) -> u32 {
    let text = HEADER.as_bytes();
    let mut at = 0;
    while at + name.len() < text.len() {
        if is_at(text, at, b"#define ") && is_at(text, at + 8, name) {
            let digits = at + 8 + name.len();
            if text[digits] == b' ' {
                return digits_at(text, digits + 1);
            }
        }
        at += 1;
    }
    panic!("the header defines it as one decimal number");
}

const fn is_at(text: &[u8], at: usize, word: &[u8]) -> bool {
    let mut i = 0;
    while i < word.len() {
        if at + i >= text.len() || text[at + i] != word[i] {
            return false;
        }
        i += 1;
    }
    true
}

const fn digits_at(text: &[u8], mut at: usize) -> u32 {
    let mut value = 0;
    assert!(text[at].is_ascii_digit(), "a decimal number");
    while text[at].is_ascii_digit() {
        value = value * 10 + (text[at] - b'0') as u32;
        at += 1;
    }
    assert!(
        text[at] == b'\n' || text[at] == b' ',
        "a decimal number alone"
    );
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_as_it_was_written() {
        let contents = [
            Content::Deleted,
            Content::Large(ValueType::STRING),
            Content::Large(ValueType::HASH),
            Content::Large(ValueType::TEST),
            Content::Bytes(ValueType::STRING, 0),
            Content::Bytes(ValueType::STRING, INLINE_MAX as u32),
            Content::Bytes(ValueType::TEST, 1),
            Content::Bytes(ValueType::TEST, INLINE_MAX as u32),
        ];
        for content in contents {
            for expires in [false, true] {
                let form = encode(content, expires);
                let is_deleted = content == Content::Deleted;
                assert_eq!(decode(form), Ok((content, expires && !is_deleted)));
            }
        }
    }

    #[test]
    fn what_this_version_does_not_know_is_refused() {
        let known = (0..1 << TYPE_BITS).filter(|&code| ValueType::from_code(code).is_some());
        assert_eq!(known.count() as u32, TYPE_COUNT + 1);
        let unknown = [
            ZERO,
            ZERO | 5,
            ZERO | EXPIRES,
            LARGE | 1,
            LARGE | 14 << LENGTH_BITS | 1,
            LARGE | TYPE_COUNT << LENGTH_BITS,
            LARGE | 13 << LENGTH_BITS,
            LARGE | 15 << LENGTH_BITS,
            LARGE | ZERO,
            LARGE | EXPIRES | TYPE_COUNT << LENGTH_BITS,
            INLINE_MAX as u32 + 1,
            TYPE_COUNT << LENGTH_BITS | 5,
            13 << LENGTH_BITS | 5,
            15 << LENGTH_BITS | 5,
            14 << LENGTH_BITS,
            ABSENT - 1,
        ];
        for form in unknown {
            assert!(decode(form).is_err(), "{form:#x}");
        }
    }
}
