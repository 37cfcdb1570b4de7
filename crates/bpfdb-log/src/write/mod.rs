//! Writes a log. The rules are in `writer.rs`; the other files have parts of the same writer.

pub(crate) mod beginning;
pub(crate) mod open;
pub(crate) mod plan;
pub(crate) mod queued;
pub(crate) mod spares;
pub(crate) mod writer;
