//! Redis's protocol: bytes to requests, and replies to bytes. Nothing here reads or writes
//! a socket.

pub(crate) mod inline;
pub(crate) mod reply;
pub(crate) mod request;

/// The Redis whose protocol and error texts this server speaks.
pub(crate) const REDIS_VERSION: &str = "7.0.15";
