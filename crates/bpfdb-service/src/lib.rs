//! The endpoint of metrics and health, and notifications to the manager of services.
//!
//! | module | |
//! |---|---|
//! | [`notify`] | messages to the manager of services (`sd_notify`) |
//! | [`endpoint`] | pages over HTTP, for a scraper of metrics |

pub mod endpoint;
mod http;
pub mod notify;

pub use http::Response;
