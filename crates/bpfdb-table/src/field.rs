//! A number at a place in values.

use std::str::FromStr;

use crate::abi;
use crate::error::Error;

/// How a number is written. All but texts are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    /// A decimal number of 64 bits with a sign, without blanks, superfluous zeros or `+`: as Redis writes
    /// integers. It goes to the end of the value.
    Text,
}

impl Type {
    const ALL: [(&'static str, Self); 9] = [
        ("u8", Self::U8),
        ("u16", Self::U16),
        ("u32", Self::U32),
        ("u64", Self::U64),
        ("i8", Self::I8),
        ("i16", Self::I16),
        ("i32", Self::I32),
        ("i64", Self::I64),
        ("text", Self::Text),
    ];

    pub(crate) fn number(self) -> u32 {
        match self {
            Self::U8 => abi::BPFDB_TABLE_U8,
            Self::U16 => abi::BPFDB_TABLE_U16,
            Self::U32 => abi::BPFDB_TABLE_U32,
            Self::U64 => abi::BPFDB_TABLE_U64,
            Self::I8 => abi::BPFDB_TABLE_I8,
            Self::I16 => abi::BPFDB_TABLE_I16,
            Self::I32 => abi::BPFDB_TABLE_I32,
            Self::I64 => abi::BPFDB_TABLE_I64,
            Self::Text => abi::BPFDB_TABLE_TEXT,
        }
    }

    /// Whether there are numbers below zero.
    pub(crate) fn has_sign(self) -> bool {
        matches!(
            self,
            Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::Text
        )
    }

    /// A number as it is written; `None`: there is no such number of this type.
    pub(crate) fn write(self, text: &str) -> Option<Vec<u8>> {
        Some(match self {
            Self::U8 => text.parse::<u8>().ok()?.to_le_bytes().into(),
            Self::U16 => text.parse::<u16>().ok()?.to_le_bytes().into(),
            Self::U32 => text.parse::<u32>().ok()?.to_le_bytes().into(),
            Self::U64 => text.parse::<u64>().ok()?.to_le_bytes().into(),
            Self::I8 => text.parse::<i8>().ok()?.to_le_bytes().into(),
            Self::I16 => text.parse::<i16>().ok()?.to_le_bytes().into(),
            Self::I32 => text.parse::<i32>().ok()?.to_le_bytes().into(),
            Self::I64 => text.parse::<i64>().ok()?.to_le_bytes().into(),
            Self::Text => text.into(),
        })
    }
}

impl FromStr for Type {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, found)| *found).ok_or_else(|| {
            let known = Self::ALL.map(|(name, _)| name).join(", ");
            Error::Invalid(format!("{name:?} is no type: {known}"))
        })
    }
}

/// A number in each value: where it begins, in bytes, and its type. Written `OFFSET:TYPE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub offset: u32,
    pub kind: Type,
}

impl FromStr for Field {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (offset, kind) = text.split_once(':').unwrap_or(("", ""));
        let wrong = || Error::Invalid(format!("{text:?} is no field: OFFSET:TYPE, such as 8:u32"));
        Ok(Self {
            offset: offset.parse().map_err(|_| wrong())?,
            kind: kind.parse()?,
        })
    }
}

impl Field {
    /// The number in a value; `None`: the value has none there.
    pub fn read(self, value: &[u8]) -> Option<i128> {
        fn bytes<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
            value.get(..N)?.try_into().ok()
        }
        let value = value.get(self.offset as usize..)?;
        Some(match self.kind {
            Type::U8 => u8::from_le_bytes(bytes(value)?).into(),
            Type::U16 => u16::from_le_bytes(bytes(value)?).into(),
            Type::U32 => u32::from_le_bytes(bytes(value)?).into(),
            Type::U64 => u64::from_le_bytes(bytes(value)?).into(),
            Type::I8 => i8::from_le_bytes(bytes(value)?).into(),
            Type::I16 => i16::from_le_bytes(bytes(value)?).into(),
            Type::I32 => i32::from_le_bytes(bytes(value)?).into(),
            Type::I64 => i64::from_le_bytes(bytes(value)?).into(),
            Type::Text => decimal(value)?.into(),
        })
    }
}

/// As Redis writes a number, and in no other way.
fn decimal(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let text = str::from_utf8(text).ok().filter(|_| is_plain)?;
    text.parse().ok()
}
