//! The numbers that the daemon counts: a list from which come the fields of [`Numbers`], what CONFIG
//! RESETSTAT resets, and the rows for INFO, /metrics and docs/metrics.md.

use std::sync::atomic::{AtomicU64, Ordering};

use bpfdb::figures::Kind;

use super::metric::{Field, Metric};

/// A number that one thread changes and others read.
#[derive(Debug, Default)]
pub(crate) struct Number(AtomicU64);

impl Number {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, more: u64) {
        self.set(self.get() + more);
    }

    /// For gauges: less by a negative number, but never below zero.
    pub(crate) fn change(&self, by: i64) {
        self.set(self.get().saturating_add_signed(by));
    }

    pub(crate) fn increment(&self) {
        self.add(1);
    }
}

macro_rules! field {
    () => {
        None
    };
    ($section:ident $name:literal) => {
        field!($section $name + |_| 0)
    };
    ($section:ident $name:literal + $kernel:expr) => {
        Some(Field {
            section: stringify!($section),
            name: $name,
            kernel: $kernel,
        })
    };
}

/// `name of field and metric: kind, section of INFO "field there" + what the kernel counted besides;`
macro_rules! numbers {
    ($(
        #[doc = $help:literal]
        $name:ident: $kind:ident $(, $section:ident $field:literal $(+ $kernel:expr)?)?;
    )*) => {
        #[derive(Debug, Default)]
        pub(crate) struct Numbers {
            $(#[doc = $help] pub(crate) $name: Number,)*
        }

        impl Numbers {
            /// Counters begin again; gauges stay.
            pub(crate) fn reset(&self) {
                $(if Kind::$kind == Kind::Counter {
                    self.$name.set(0);
                })*
            }
        }

        pub(crate) static NUMBERS: &[Metric<Numbers>] = &[$(
            Metric {
                name: stringify!($name),
                kind: Kind::$kind,
                help: $help.trim_ascii(),
                read: |numbers| numbers.$name.get(),
                info: field!($($section $field $(+ $kernel)?)?),
            },
        )*];
    };
}

// The comment is the help that users read. A name says its unit, if it has one; a counter begins
// again at CONFIG RESETSTAT.
numbers! {
    /// Connections of clients
    connections: Gauge, clients "connected_clients";
    /// Connections through the Unix-domain socket
    connections_unix: Gauge, clients "unix_clients";
    /// Connections accepted
    connections_received: Counter, stats "total_connections_received";
    /// Connections refused: too many
    connections_rejected: Counter, stats "rejected_connections";
    /// Connections closed because they were idle
    connections_timed_out: Counter;
    /// Connections closed because they did not read
    connections_over_output_limit: Counter, stats "client_output_buffer_limit_disconnections";
    /// Connections closed because all together used too much memory
    connections_evicted: Counter, stats "evicted_clients";
    /// Connections that have subscribed to something
    subscribers: Gauge, clients "pubsub_clients";
    /// Channels that have subscribers
    channels: Gauge, stats "pubsub_channels";
    /// Patterns of channels that have subscribers
    patterns: Gauge, stats "pubsub_patterns";
    /// Shard channels that have subscribers
    shard_channels: Gauge, stats "pubsubshard_channels";
    /// Messages that the daemon published; the kernel, where nobody listens, counts the command
    messages_published: Counter;
    /// Messages published, once for each receiver
    messages_delivered: Counter;
    /// Memory that the daemon takes for requests and replies
    client_memory_bytes: Gauge, memory "mem_clients_normal";
    /// Bytes that the daemon received
    input_bytes: Counter, stats "total_net_input_bytes" + |kernel| kernel.received;
    /// Bytes that the daemon sent
    output_bytes: Counter, stats "total_net_output_bytes" + |kernel| kernel.sent;
    /// Errors that the daemon replied
    error_replies: Counter, stats "total_error_replies" + |kernel| kernel.errors();
    /// Tables that are open
    tables_open: Gauge, stats "tables_open";
    /// Questions to tables that chains of reads in the kernel answered
    table_questions_by_kernel: Counter, stats "table_questions_by_kernel";
    /// Look-ups of tables that blocks kept in memory answered
    table_questions_from_pool: Counter, stats "table_questions_from_pool";
    /// Questions to tables for which the daemon read the file
    table_questions_by_process: Counter, stats "table_questions_by_process";
    /// Wrong passwords
    authentications_failed: Counter, stats "acl_access_denied_auth";
}
