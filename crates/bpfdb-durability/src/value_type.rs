//! The type of a value in the engine and in the log: one number, which each of the two crates has a
//! type of its own for.

use crate::error::{Error, Result};

/// # Errors
/// The log's format has no such type.
pub(crate) fn in_log(kind: bpfdb::ValueType) -> Result<bpfdb_log::ValueType> {
    bpfdb_log::ValueType::from_code(kind.code()).ok_or(Error::UnknownType(kind.code()))
}

pub(crate) fn in_engine(kind: bpfdb_log::ValueType) -> bpfdb::ValueType {
    bpfdb::ValueType::from_code(kind.code())
}
