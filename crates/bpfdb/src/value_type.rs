//! Types of values: `include/bpfdb/form.h`.

use crate::abi;

/// By their numbers.
const NAMES: [&str; abi::BPFDB_TYPE_COUNT as usize] =
    ["string", "hash", "list", "set", "zset", "stream"];

/// The type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ValueType(u8);

/// One of the numbers below [`abi::BPFDB_TYPE_COUNT`].
const fn known(number: u32) -> ValueType {
    assert!(number < abi::BPFDB_TYPE_COUNT, "the types are counted");
    ValueType(number as u8)
}

impl ValueType {
    pub const STRING: Self = known(abi::BPFDB_TYPE_STRING);
    pub const HASH: Self = known(abi::BPFDB_TYPE_HASH);
    pub const LIST: Self = known(abi::BPFDB_TYPE_LIST);
    pub const SET: Self = known(abi::BPFDB_TYPE_SET);
    pub const SORTED_SET: Self = known(abi::BPFDB_TYPE_SORTED_SET);
    pub const STREAM: Self = known(abi::BPFDB_TYPE_STREAM);
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

    /// Every type that this version knows, but for that of tests.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..abi::BPFDB_TYPE_COUNT as u8).map(Self)
    }

    /// The word for it that TYPE replies.
    pub fn name(self) -> &'static str {
        match NAMES.get(usize::from(self.0)) {
            Some(name) => name,
            None if self == Self::TEST => "test",
            None => "unknown",
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
