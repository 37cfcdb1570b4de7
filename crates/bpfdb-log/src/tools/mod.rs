//! Tools for a log that no process writes: check, copy, cut it, and make its
//! control file anew.

pub(crate) mod check;
pub(crate) mod copy;
pub(crate) mod cut;
pub(crate) mod lost;
pub(crate) mod rebuild;
