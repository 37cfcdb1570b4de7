//! Metrics whose values are not numbers that the daemon counts: tables of rows, one for each thing
//! that is read.

pub(crate) mod daemon;
pub(crate) mod log;
pub(crate) mod page;
pub(crate) mod procedures;
pub(crate) mod tier;
