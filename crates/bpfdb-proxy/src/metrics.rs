//! What /metrics tells: pools by database and user, and the kernel's part.
//!
//! The event loop makes the page when it is asked for one, since only it knows the pools. The thread that asks waits
//! in a thread of the endpoint.

use std::fmt;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bpfdb_service::Response;
use bpfdb_service::endpoint::{OPEN_METRICS, Pages};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::kernel::abi;
use crate::traffic::Traffic;

/// So long is the event loop waited for.
const PATIENCE: Duration = Duration::from_secs(2);
const NANOS: f64 = 1e9;

/// Of the pools of a user on a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolFigures {
    pub(crate) database: String,
    pub(crate) user: String,
    /// By what they do.
    pub(crate) clients: Vec<(&'static str, u64)>,
    pub(crate) servers: Vec<(&'static str, u64)>,
    /// The longest that a client waits.
    pub(crate) wait: Duration,
    pub(crate) traffic: Traffic,
}

/// Of the mirror of a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct MirrorFigures {
    pub(crate) database: String,
    pub(crate) mirror: String,
    pub(crate) transactions: u64,
    pub(crate) lost: u64,
    pub(crate) errors: u64,
    /// Bytes.
    pub(crate) queued: u64,
    pub(crate) lag: Duration,
}

/// All that is told.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) mirrors: Vec<MirrorFigures>,
    pub(crate) pools: Vec<PoolFigures>,
    /// Requests that the kernel has brought, and why it has not brought others.
    pub(crate) kernel: Option<(u64, abi::bpfdb_proxy_counters)>,
}

impl Figures {
    /// The page, in the text form of OpenMetrics.
    pub(crate) fn page(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("bpfdb_proxy");
        registry.register_collector(Box::new(self));
        let mut page = String::new();
        text::encode(&mut page, &registry)?;
        Ok(page)
    }
}

enum Value {
    Counter(f64),
    Gauge(f64),
}

impl Value {
    fn encode(&self, mut metric: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Counter(value) => metric.encode_counter::<NoLabelSet, _, u64>(value, None),
            Self::Gauge(value) => metric.encode_gauge(value),
        }
    }
}

type Labels = Vec<(&'static str, String)>;

fn family(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    kind: MetricType,
    values: impl Iterator<Item = (Labels, Value)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in values {
        value.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.states(&mut encoder)?;
        self.traffic(&mut encoder)?;
        self.mirrors(&mut encoder)?;
        self.kernel(&mut encoder)
    }
}

/// A counter of pools: name, help, value.
type Counter = (&'static str, &'static str, fn(&Traffic) -> f64);

#[rustfmt::skip]
const COUNTERS: [Counter; 7] = [
    ("queries", "ReadyForQuery messages that clients have got", |all| all.queries as f64),
    ("transactions", "Those of them outside a transaction block", |all| all.transactions as f64),
    ("received_bytes", "Bytes from clients", |all| all.received as f64),
    ("sent_bytes", "Bytes to clients", |all| all.sent as f64),
    ("query_seconds", "Time from requests to their ReadyForQuery messages", |all| all.query_time as f64 / NANOS),
    ("transaction_seconds", "Time of transactions", |all| all.transaction_time as f64 / NANOS),
    ("wait_seconds", "Time that clients have waited for servers", |all| all.wait_time as f64 / NANOS),
];

impl Figures {
    fn labels(pool: &PoolFigures) -> Labels {
        vec![
            ("database", pool.database.clone()),
            ("user", pool.user.clone()),
        ]
    }

    fn states(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Of = fn(&PoolFigures) -> &[(&'static str, u64)];
        fn clients(pool: &PoolFigures) -> &[(&'static str, u64)] {
            &pool.clients
        }
        fn servers(pool: &PoolFigures) -> &[(&'static str, u64)] {
            &pool.servers
        }
        for (name, help, of) in [
            ("clients", "Clients by what they do", clients as Of),
            ("servers", "Servers by what they do", servers as Of),
        ] {
            let values = self.pools.iter().flat_map(|pool| {
                of(pool).iter().map(move |(state, number)| {
                    let mut labels = Self::labels(pool);
                    labels.push(("state", (*state).to_owned()));
                    (labels, Value::Gauge(*number as f64))
                })
            });
            family(encoder, (name, help), MetricType::Gauge, values)?;
        }
        let about = (
            "longest_wait_seconds",
            "The longest that a client waits now",
        );
        let waits = self.pools.iter();
        let waits = waits.map(|pool| (Self::labels(pool), Value::Gauge(pool.wait.as_secs_f64())));
        family(encoder, about, MetricType::Gauge, waits)
    }

    fn traffic(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, value) in COUNTERS {
            let values = self.pools.iter();
            let values =
                values.map(|pool| (Self::labels(pool), Value::Counter(value(&pool.traffic))));
            family(encoder, (name, help), MetricType::Counter, values)?;
        }
        Ok(())
    }

    fn mirrors(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Of = fn(&MirrorFigures) -> Value;
        let all: [(&str, &str, MetricType, Of); 5] = [
            (
                "mirror_transactions",
                "Transactions that the mirror of a database has done",
                MetricType::Counter,
                |mirror| Value::Counter(mirror.transactions as f64),
            ),
            (
                "mirror_lost_transactions",
                "Transactions that the mirror has not got, or not as a whole",
                MetricType::Counter,
                |mirror| Value::Counter(mirror.lost as f64),
            ),
            (
                "mirror_errors",
                "Errors that the mirror has answered with",
                MetricType::Counter,
                |mirror| Value::Counter(mirror.errors as f64),
            ),
            (
                "mirror_queued_bytes",
                "What waits for the mirror",
                MetricType::Gauge,
                |mirror| Value::Gauge(mirror.queued as f64),
            ),
            (
                "mirror_lag_seconds",
                "The age of the oldest transaction that the mirror has not done",
                MetricType::Gauge,
                |mirror| Value::Gauge(mirror.lag.as_secs_f64()),
            ),
        ];
        for (name, help, kind, value) in all {
            let values = self.mirrors.iter().map(|mirror| {
                let labels = vec![
                    ("database", mirror.database.clone()),
                    ("mirror", mirror.mirror.clone()),
                ];
                (labels, value(mirror))
            });
            family(encoder, (name, help), kind, values)?;
        }
        Ok(())
    }

    fn kernel(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some((requests, counters)) = &self.kernel else {
            return Ok(());
        };
        let one = |value: u64| [(Labels::new(), Value::Counter(value as f64))].into_iter();
        let about = (
            "kernel_requests",
            "Requests that the kernel has brought to servers",
        );
        family(encoder, about, MetricType::Counter, one(*requests))?;
        let about = (
            "kernel_waits",
            "Those of them that have waited there for a server",
        );
        family(encoder, about, MetricType::Counter, one(counters.waits))?;
        let reasons = [
            ("request", counters.slow_request),
            ("order", counters.slow_order),
            ("unread", counters.slow_unread),
            ("server", counters.slow_server),
            ("mirror", counters.slow_mirror),
            ("statement", counters.slow_statement),
        ];
        let values = reasons.into_iter().map(|(reason, number)| {
            let labels = vec![("reason", reason.to_owned())];
            (labels, Value::Counter(number as f64))
        });
        let about = (
            "kernel_left",
            "Requests that the kernel has left to the process: it does not follow them (request), bytes were under way \
             (order), too much was not read (unread), no server was free (server), there was no room for a copy (mirror), \
             the server lacked a prepared statement (statement)",
        );
        family(encoder, about, MetricType::Counter, values)
    }
}

/// The event loop, for the endpoint's threads.
#[derive(Clone)]
pub(crate) struct Loop {
    /// Asks it, and its pages.
    pub(crate) both: Arc<Mutex<(UnixStream, Receiver<String>)>>,
    /// What asks for a page.
    pub(crate) question: u8,
}

impl Loop {
    fn ask(&self) -> Option<String> {
        let both = self.both.lock().ok()?;
        let (stream, pages) = &*both;
        // One that came too late for the thread that has asked.
        while pages.try_recv().is_ok() {}
        (&*stream).write_all(&[self.question]).ok()?;
        pages.recv_timeout(PATIENCE).ok()
    }
}

impl Pages for Loop {
    fn page(&self, path: &str) -> Option<Response> {
        match path {
            "/metrics" => Some(match self.ask() {
                Some(page) => Response::of(OPEN_METRICS, page),
                None => Response::state(false),
            }),
            "/health" => Some(Response::state(self.ask().is_some())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clients_end_no_label() {
        let figures = Figures {
            pools: vec![PoolFigures {
                database: "a\"b\\c\nd".into(),
                user: "u".into(),
                clients: vec![("active", 2)],
                traffic: Traffic {
                    queries: 3,
                    ..Traffic::default()
                },
                ..PoolFigures::default()
            }],
            mirrors: vec![MirrorFigures {
                database: "a".into(),
                mirror: "b".into(),
                lost: 4,
                lag: Duration::from_millis(1500),
                ..MirrorFigures::default()
            }],
            ..Figures::default()
        };
        let page = figures.page().expect("a page");
        let labels = "database=\"a\\\"b\\\\c\\nd\",user=\"u\"";
        for line in [
            format!("bpfdb_proxy_clients{{{labels},state=\"active\"}} 2.0"),
            format!("bpfdb_proxy_queries_total{{{labels}}} 3.0"),
            "bpfdb_proxy_mirror_lost_transactions_total{database=\"a\",mirror=\"b\"} 4.0"
                .to_owned(),
            "bpfdb_proxy_mirror_lag_seconds{database=\"a\",mirror=\"b\"} 1.5".to_owned(),
            "# EOF".to_owned(),
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }
}
