//! What the endpoint of metrics is told.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};

use bpfdb_service::endpoint::Endpoint;

use super::Proxy;
use super::mirroring::MirrorNow;
use super::stopper::MAKE_PAGE;
use crate::error::{Result, system};
use crate::metrics::{self, Figures, MirrorFigures, PoolFigures};
use crate::settings::Settings;
use crate::traffic::Traffic;

impl Proxy {
    fn figures(&self) -> Figures {
        let mut traffic: BTreeMap<(&str, &str), Traffic> = BTreeMap::new();
        for (number, pool) in self.pools.iter().enumerate() {
            let key = (pool.key.database.as_str(), pool.key.user.as_str());
            *traffic.entry(key).or_default() += self.traffic(number as u32);
        }
        let pool =
            |((database, user), counts): (&(&str, &str), &super::console::Counts)| PoolFigures {
                database: (*database).to_owned(),
                user: (*user).to_owned(),
                clients: vec![
                    ("active", counts.clients_active),
                    ("waiting", counts.clients_waiting),
                ],
                servers: vec![
                    ("active", counts.servers_active),
                    ("idle", counts.servers_idle),
                    ("tested", counts.servers_tested),
                    ("login", counts.servers_logging_in),
                ],
                wait: counts.wait,
                traffic: traffic
                    .get(&(*database, *user))
                    .copied()
                    .unwrap_or_default(),
            };
        Figures {
            pools: self.counts_of_pools().iter().map(pool).collect(),
            mirrors: self.mirrors_now().into_iter().map(shown).collect(),
            kernel: self.kernel.as_ref().map(|kernel| kernel.shared.figures()),
        }
    }

    /// The endpoint, once the predecessor has left its address.
    pub(super) fn serve_metrics(&mut self) {
        if self.metrics.is_some() || self.asker.is_none() {
            return;
        }
        match serve(&self.settings, self.asker.as_ref(), true) {
            Ok(endpoint) => self.metrics = endpoint,
            Err(error) => {
                tracing::error!(%error, "there are no metrics");
                self.asker = None;
            }
        }
    }

    /// A page for the endpoint, which has asked for it.
    pub(super) fn make_page(&self) {
        match self.figures().page() {
            // The thread that has asked may be gone.
            Ok(page) => drop(self.pages.send(page)),
            Err(error) => tracing::error!(%error, "cannot make a page of metrics"),
        }
    }
}

fn shown(now: MirrorNow) -> MirrorFigures {
    MirrorFigures {
        database: now.database,
        mirror: now.mirror,
        transactions: now.figures.transactions,
        lost: now.figures.lost,
        errors: now.figures.errors,
        queued: now.figures.queued as u64,
        lag: now.lag,
    }
}

/// What the endpoint asks, if the settings have an address for it.
pub(super) fn asker(
    settings: &Settings,
    stopper: &UnixStream,
    pages: Receiver<String>,
) -> Result<Option<metrics::Loop>> {
    if settings.administration.metrics.is_none() {
        return Ok(None);
    }
    let stream = stopper
        .try_clone()
        .map_err(system("duplicate a descriptor"))?;
    Ok(Some(metrics::Loop {
        both: Arc::new(Mutex::new((stream, pages))),
        question: MAKE_PAGE,
    }))
}

/// The endpoint. `is_successor`: it may be the predecessor that has the address still; then there is none yet.
pub(super) fn serve(
    settings: &Settings,
    asker: Option<&metrics::Loop>,
    is_successor: bool,
) -> Result<Option<Endpoint>> {
    let (Some(address), Some(asker)) = (settings.administration.metrics, asker) else {
        return Ok(None);
    };
    match Endpoint::start(address, asker.clone()) {
        Ok(endpoint) => Ok(Some(endpoint)),
        Err(error) if is_successor && error.kind() == ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(system(format!("serve metrics on {address}"))(error)),
    }
}
