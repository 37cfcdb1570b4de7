//! Operations of a session, and where they lie in its buffer.

use super::HEADER;
use crate::{ValueType, abi};

/// In the number of an operator: it finds values of any type.
const ANY: u32 = abi::BPFDB_TYPE_ANY << abi::BPFDB_OF_TYPE_SHIFT;

/// An operation of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    Begin,
    BeginReadOnly,
    Get(&'a [u8]),
    GetForUpdate(&'a [u8]),
    /// GET of a value of any type.
    GetAny(&'a [u8]),
    GetAnyForUpdate(&'a [u8]),
    /// GET of the newest version, or of the transaction's own, without a lock.
    Peek(&'a [u8]),
    Set(&'a [u8], &'a [u8]),
    /// With the time at which it expires; see [`Session::set_entry`].
    SetEntry(&'a [u8], &'a [u8], Option<u64>),
    /// A value of a type, of 1 to `BPFDB_VALUE_MAX` bytes if it is no string.
    SetTyped(&'a [u8], ValueType, &'a [u8], Option<u64>),
    Delete(&'a [u8]),
    Commit,
    Rollback,
    /// See [`Session::token_of`].
    Watch(&'a [u8]),
    /// See [`Session::lock_holders`].
    Hash(&'a [u8]),
    /// See [`Session::settle`].
    Settle,
    /// See [`Session::evict`]: header and `meta` of the record as it was sampled.
    Evict(&'a [u8], u64, u64),
    /// See [`Session::access_of`]; not 0: the access word that the record gets.
    Access(&'a [u8], u64),
}

impl<'a> Operation<'a> {
    pub(super) fn code(&self) -> u32 {
        match self {
            Self::Begin => abi::BPFDB_OP_BEGIN,
            Self::BeginReadOnly => abi::BPFDB_OP_BEGIN_READ_ONLY,
            Self::Get(_) => abi::BPFDB_OP_GET,
            Self::GetForUpdate(_) => abi::BPFDB_OP_GET_FOR_UPDATE,
            Self::GetAny(_) => abi::BPFDB_OP_GET | ANY,
            Self::GetAnyForUpdate(_) => abi::BPFDB_OP_GET_FOR_UPDATE | ANY,
            Self::Peek(_) => abi::BPFDB_OP_PEEK,
            Self::Set(..) | Self::SetEntry(..) => abi::BPFDB_OP_SET,
            Self::SetTyped(_, kind, ..) => abi::BPFDB_OP_SET | kind.of_operation(),
            Self::Delete(_) => abi::BPFDB_OP_DELETE,
            Self::Commit => abi::BPFDB_OP_COMMIT,
            Self::Rollback => abi::BPFDB_OP_ROLLBACK,
            Self::Watch(_) => abi::BPFDB_OP_WATCH,
            Self::Hash(_) => abi::BPFDB_OP_HASH,
            Self::Settle => abi::BPFDB_OP_SETTLE,
            Self::Evict(..) => abi::BPFDB_OP_EVICT,
            Self::Access(..) => abi::BPFDB_OP_ACCESS,
        }
    }

    pub(super) fn key(&self) -> &'a [u8] {
        match self {
            Self::Get(key) | Self::GetForUpdate(key) | Self::Delete(key) => key,
            Self::GetAny(key) | Self::GetAnyForUpdate(key) | Self::Peek(key) => key,
            Self::Watch(key) | Self::Hash(key) => key,
            Self::Evict(key, ..) | Self::Access(key, _) => key,
            Self::Set(key, _) | Self::SetEntry(key, ..) | Self::SetTyped(key, ..) => key,
            _ => &[],
        }
    }

    pub(super) fn value(&self) -> &'a [u8] {
        match self {
            Self::Set(_, value) | Self::SetEntry(_, value, _) => value,
            Self::SetTyped(_, _, value, _) => value,
            _ => &[],
        }
    }

    /// As the engine takes it: 0 is never, and 1 is over.
    pub(super) fn expires(&self) -> u64 {
        match self {
            Self::SetEntry(.., Some(time)) | Self::SetTyped(.., Some(time)) => (*time).max(1),
            _ => 0,
        }
    }

    /// What stands in the places of a large value.
    pub(super) fn words(&self) -> (u64, u64) {
        match self {
            Self::Evict(_, header, meta) => (*header, *meta),
            Self::Access(_, word) => (*word, 0),
            _ => (0, 0),
        }
    }

    pub(super) fn reads(&self) -> bool {
        matches!(self.code() & !ANY, abi::BPFDB_OP_GET | abi::BPFDB_OP_PEEK) || self.locks()
    }

    /// Does it find a value of this type?
    pub(super) fn takes(&self, kind: ValueType) -> bool {
        kind == ValueType::STRING || self.code() & ANY == ANY
    }

    /// Does the engine count it among what was found and missed?
    pub(super) fn is_counted(&self) -> bool {
        self.code() & !ANY == abi::BPFDB_OP_GET
    }

    /// Does it read under an exclusive lock?
    pub(super) fn locks(&self) -> bool {
        self.code() & !ANY == abi::BPFDB_OP_GET_FOR_UPDATE
    }

    /// Bytes that its result needs, if a value has up to `longest`.
    pub(super) fn room(&self, longest: usize) -> usize {
        match self {
            Self::Watch(_) => size_of::<abi::bpfdb_watch>(),
            _ if self.reads() => longest.max(16),
            _ => 0,
        }
    }
}

/// Where a request lies in the io buffer, and how long it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) at: usize,
    pub(super) key: usize,
    pub(super) room: usize,
    /// Does it bring a value?
    pub(super) reads: bool,
}

impl Place {
    pub(super) fn value(&self) -> usize {
        self.at + HEADER + self.key.next_multiple_of(8)
    }

    pub(super) fn end(&self) -> usize {
        (self.value() + self.room).next_multiple_of(8)
    }
}
