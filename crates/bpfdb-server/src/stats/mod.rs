//! Counters and measurements of the server, and how it is read: by INFO, SLOWLOG and LATENCY,
//! and by Prometheus.

pub(crate) mod front_end;
pub(crate) mod histogram;
pub(crate) mod kernel_counters;
pub(crate) mod latency;
pub(crate) mod metric;
pub(crate) mod metrics;
pub(crate) mod numbers;
pub(crate) mod procedures;
pub(crate) mod rate;
pub(crate) mod rows;
pub(crate) mod slowlog;
pub(crate) mod statistics;
