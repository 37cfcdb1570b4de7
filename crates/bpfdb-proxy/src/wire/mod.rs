//! The protocol of PostgreSQL, version 3: where messages begin, and those that the proxy makes.

pub(crate) mod assignment;
pub(crate) mod framing;
pub(crate) mod hint;
pub(crate) mod reply;
pub(crate) mod rows;
pub(crate) mod startup;
pub(crate) mod text;
