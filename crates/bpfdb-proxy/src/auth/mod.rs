//! Who a client is, and who we are to a server.

pub(crate) mod client;
pub(crate) mod login;
mod scram;
