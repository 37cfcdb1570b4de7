//! What the bytes of a value mean: numbers as Redis writes them, patterns, and the form of
//! DUMP. Nothing here knows a connection or the engine.

pub(crate) mod dump;
pub(crate) mod glob;
pub(crate) mod integer;
pub(crate) mod long_double;
