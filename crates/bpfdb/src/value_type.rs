//! Types of values: `include/bpfdb/form.h`.

use crate::abi;

/// The type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ValueType(u8);

impl ValueType {
    pub const STRING: Self = Self(abi::BPFDB_TYPE_STRING as u8);
    pub const HASH: Self = Self(abi::BPFDB_TYPE_HASH as u8);
    pub const LIST: Self = Self(abi::BPFDB_TYPE_LIST as u8);
    pub const SET: Self = Self(abi::BPFDB_TYPE_SET as u8);
    pub const SORTED_SET: Self = Self(abi::BPFDB_TYPE_SORTED_SET as u8);
    pub const STREAM: Self = Self(abi::BPFDB_TYPE_STREAM as u8);
    /// Of tests alone.
    pub const TEST: Self = Self(abi::BPFDB_TYPE_TEST as u8);

    /// The type with this number in a form, known to this version or not: commands of other types
    /// refuse it either way.
    pub fn from_code(code: u8) -> Self {
        Self(code)
    }

    /// The number of the type in a form.
    pub fn code(self) -> u8 {
        self.0
    }

    /// The word for it that TYPE replies.
    pub fn name(self) -> &'static str {
        match self {
            Self::STRING => "string",
            Self::HASH => "hash",
            Self::LIST => "list",
            Self::SET => "set",
            Self::SORTED_SET => "zset",
            Self::STREAM => "stream",
            Self::TEST => "test",
            _ => "unknown",
        }
    }

    pub(crate) fn of_form(form: u64) -> Self {
        let code = form >> abi::BPFDB_FORM_LENGTH_BITS & abi::BPFDB_FORM_TYPE_MASK;
        Self(code as u8)
    }

    /// As a request to the engine says it.
    pub(crate) fn of_operation(self) -> u32 {
        u32::from(self.0) << abi::BPFDB_OF_TYPE_SHIFT
    }
}
