//! The bytes of a log: what encodes and decodes them, and when they are valid.
//! `docs/formats/log.md` has them one by one.

pub mod batch;
pub mod checkpoint;
pub mod control;
pub(crate) mod form;
pub(crate) mod layout;
pub(crate) mod moment;
pub(crate) mod place;
pub mod record;
pub mod segment;
