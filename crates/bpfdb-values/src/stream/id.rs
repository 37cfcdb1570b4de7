//! The identifier of an entry: milliseconds and a number within them.

use std::fmt;

/// Ascending within a stream. The order is that of milliseconds, then of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    pub ms: u64,
    pub seq: u64,
}

/// Bytes of the longest text of an identifier that is read.
const TEXT_MAX: usize = 127;

/// A text that names an identifier, or the beginning of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Whole(Id),
    /// Milliseconds alone.
    Milliseconds(u64),
    /// Milliseconds, and `*` for the number.
    NextOf(u64),
}

impl Id {
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    pub const MAX: Self = Self {
        ms: u64::MAX,
        seq: u64::MAX,
    };

    pub fn new(ms: u64, seq: u64) -> Self {
        Self { ms, seq }
    }

    /// `None`: there is no greater one.
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => Some(Self::new(self.ms.checked_add(1)?, 0)),
        }
    }

    /// `None`: there is no smaller one.
    pub fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => Some(Self::new(self.ms.checked_sub(1)?, u64::MAX)),
        }
    }

    /// In the order of identifiers: both numbers with the highest byte first.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.ms.to_be_bytes());
        bytes[8..].copy_from_slice(&self.seq.to_be_bytes());
        bytes
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let number = u128::from_be_bytes(bytes);
        Self::new((number >> 64) as u64, number as u64)
    }

    /// What an argument says, as Redis reads it: `ms`, `ms-seq` or `ms-*`. `None`: nothing.
    pub fn read(text: &[u8]) -> Option<Written> {
        if text.len() > TEXT_MAX {
            return None;
        }
        let end = text.iter().position(|&byte| byte == 0);
        let text = &text[..end.unwrap_or(text.len())];
        let Some(dash) = text.iter().position(|&byte| byte == b'-') else {
            return unsigned(text).map(Written::Milliseconds);
        };
        let ms = unsigned(&text[..dash])?;
        match &text[dash + 1..] {
            b"*" => Some(Written::NextOf(ms)),
            seq => Some(Written::Whole(Self::new(ms, unsigned(seq)?))),
        }
    }

    /// The identifier that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        match Self::read(text.as_bytes()) {
            Some(Written::Whole(id)) if id.to_string() == text => Some(id),
            _ => None,
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.ms, self.seq)
    }
}

/// A number as strtoull() reads a whole text, but for a shortest form that is negative: blanks before
/// it, a sign and leading zeros are allowed, and one with a minus sign counts from the end of the range.
fn unsigned(text: &[u8]) -> Option<u64> {
    if let Some(number) = crate::integer::parse(text) {
        return number.try_into().ok();
    }
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let blanks = text.iter().take_while(|byte| is_blank(byte)).count();
    let (is_negative, digits) = match &text[blanks..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if is_negative {
        number.wrapping_neg()
    } else {
        number
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_as_redis_reads_them() {
        let whole = |ms, seq| Some(Written::Whole(Id::new(ms, seq)));
        for (text, read) in [
            ("1-2", whole(1, 2)),
            ("1", Some(Written::Milliseconds(1))),
            ("1-*", Some(Written::NextOf(1))),
            (
                "18446744073709551615-18446744073709551615",
                whole(u64::MAX, u64::MAX),
            ),
            ("18446744073709551616-0", None),
            ("01-002", whole(1, 2)),
            (" +1- 2", whole(1, 2)),
            ("1--0", whole(1, 0)),
            ("1- -1", whole(1, u64::MAX)),
            ("1-\0x", None),
            ("1-2\0x", whole(1, 2)),
            ("1--1", None),
            ("-1", None),
            ("-", None),
            ("+", None),
            ("", None),
            ("1-", None),
            ("1-2-3", None),
            ("1-**", None),
            ("*", None),
            ("x", None),
        ] {
            assert_eq!(Id::read(text.as_bytes()), read, "{text:?}");
        }
        assert_eq!(Id::read(&[b'0'; 127]), Some(Written::Milliseconds(0)));
        assert_eq!(Id::read(&[b'0'; 128]), None);
    }

    #[test]
    fn neighbours() {
        assert_eq!(Id::new(1, u64::MAX).next(), Some(Id::new(2, 0)));
        assert_eq!(Id::new(2, 0).previous(), Some(Id::new(1, u64::MAX)));
        assert_eq!(
            (Id::MAX.next(), Id::MIN.previous()),
            (None, None),
            "the ends"
        );
    }

    proptest! {
        #[test]
        fn bytes_are_in_the_order_of_identifiers(a: (u64, u64), b: (u64, u64)) {
            let (a, b) = (Id::new(a.0, a.1), Id::new(b.0, b.1));
            prop_assert_eq!(a.to_bytes().cmp(&b.to_bytes()), a.cmp(&b));
            prop_assert_eq!(Id::from_bytes(a.to_bytes()), a);
            prop_assert_eq!(Id::parse(&a.to_string()), Some(a));
        }
    }
}
