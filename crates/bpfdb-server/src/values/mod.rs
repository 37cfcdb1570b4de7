//! Meanings of the bytes of a value: numbers as Redis writes them, patterns, and the form of
//! DUMP. Nothing here knows a connection or the engine.

pub(crate) mod glob;
pub(crate) mod long_double;
pub(crate) mod random;

/// Files have these too: the crate of copies has the code.
pub(crate) use bpfdb_copies::integer;
pub(crate) use bpfdb_copies::rdb::functions as functions_dump;
pub(crate) use bpfdb_copies::rdb::payload as dump;
