//! The metrics endpoint: /metrics for Prometheus, /health while the daemon's thread is at work,
//! /ready while connections are taken in.
//!
//! It reads what the daemon counts and what the engine's maps say; it never
//! makes either wait.

mod encode;
mod figures;

use std::net::SocketAddr;
use std::sync::Arc;

use bpfdb::Engine;
use bpfdb_durability::Durability;
use bpfdb_service::Response;
use bpfdb_service::endpoint::{self, Endpoint, OPEN_METRICS};
use bpfdb_tier::Tier;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use crate::error::{Result, system};
use crate::stats::statistics::Statistics;

pub(crate) fn serve(
    address: SocketAddr,
    engine: &Engine,
    statistics: &Arc<Statistics>,
    log: Option<&Arc<Durability>>,
    tier: Option<&Arc<Tier>>,
) -> Result<Endpoint> {
    let pages = Pages {
        registry: figures::registry(engine, statistics, log, tier),
        statistics: Arc::clone(statistics),
    };
    Endpoint::start(address, pages).map_err(system(format!("serve metrics on {address}")))
}

#[derive(Debug)]
struct Pages {
    registry: Registry,
    statistics: Arc<Statistics>,
}

impl endpoint::Pages for Pages {
    fn page(&self, path: &str) -> Option<Response> {
        match path {
            "/metrics" => Some(self.metrics()),
            "/health" => Some(Response::state(self.statistics.is_alive())),
            "/ready" => Some(Response::state(self.statistics.is_ready())),
            _ => None,
        }
    }
}

impl Pages {
    fn metrics(&self) -> Response {
        let mut body = String::new();
        match text::encode(&mut body, &self.registry) {
            Ok(()) => Response::of(OPEN_METRICS, body),
            Err(_) => Response::plain(500, "Internal Server Error"),
        }
    }
}
