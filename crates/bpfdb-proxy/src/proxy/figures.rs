//! What the endpoint of metrics is told.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::mpsc::Receiver;

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

    /// A page for the endpoint, which has asked for it.
    pub(super) fn make_page(&self) {
        match self.figures().page() {
            // Whoever has asked may be gone.
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
        queued: now.figures.queued as u64,
        lag: now.lag,
    }
}

/// The endpoint, if the settings have an address for it.
pub(super) fn serve(
    settings: &Settings,
    stopper: &UnixStream,
    pages: Receiver<String>,
) -> Result<Option<Endpoint>> {
    let Some(address) = settings.administration.metrics else {
        return Ok(None);
    };
    let stream = stopper
        .try_clone()
        .map_err(system("duplicate a descriptor"))?;
    let asker = metrics::Loop {
        both: Mutex::new((stream, pages)),
        question: MAKE_PAGE,
    };
    let endpoint = Endpoint::start(address, asker);
    endpoint
        .map(Some)
        .map_err(system(format!("serve metrics on {address}")))
}
