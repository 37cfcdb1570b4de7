//! What a program says to those who run it as a service.
//!
//! | module | |
//! |---|---|
//! | [`notify`] | the manager of services is told (`sd_notify`) |
//! | [`endpoint`] | pages over HTTP, for a scraper of metrics |

pub mod endpoint;
mod http;
pub mod notify;

pub use http::Response;
