//! System calls of the event loop: what is ready, sockets, and the way to stop it.

pub(crate) mod bell;
pub(crate) mod descriptors;
pub(crate) mod poll;
pub(crate) mod socket;
pub(crate) mod stopper;
pub(crate) mod unix;
