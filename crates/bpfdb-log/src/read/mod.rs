//! Reads a log: where it ends, which commits count, and which of them a given time or a growing
//! log admits. Nothing here writes.

pub(crate) mod follow;
pub mod reader;
pub(crate) mod recovered;
pub(crate) mod recovery;
pub(crate) mod retained;
pub(crate) mod until;
