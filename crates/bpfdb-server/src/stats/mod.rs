//! What the server counts and measures, and how it is read: by INFO, SLOWLOG and LATENCY,
//! and by Prometheus.

pub(crate) mod front_end;
pub(crate) mod kernel_counters;
pub(crate) mod latency;
pub(crate) mod metrics;
pub(crate) mod procedures;
pub(crate) mod rate;
pub(crate) mod slowlog;
pub(crate) mod statistics;
