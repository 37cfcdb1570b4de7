//! System calls of the event loop: what is ready, and sockets.

pub(crate) mod alive;
pub(crate) mod poll;
pub(crate) mod slab;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod tls;
