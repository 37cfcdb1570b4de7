//! A proxy in a thread of the test.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::MutexGuard;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use bpfdb_proxy::config::File;
use bpfdb_proxy::settings::{ANY_DATABASE, Database, PoolMode, Settings};
use bpfdb_proxy::{Proxy, Stopper};

use crate::postgres;
use crate::wire::Wire;

/// How bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Within the `send()` of either end, where that can be.
    Kernel,
    /// The programs are there, and leave everything to the process.
    Slow,
    /// Without programs.
    Plain,
}

pub(crate) const WAYS: [Way; 3] = [Way::Kernel, Way::Slow, Way::Plain];

pub(crate) struct TestProxy {
    way: Way,
    pub(crate) port: u16,
    pub(crate) metrics: Option<SocketAddr>,
    stopper: Stopper,
    thread: Option<JoinHandle<u64>>,
    /// What it has the ends by.
    alone: Option<MutexGuard<'static, ()>>,
}

impl TestProxy {
    /// Before the PostgreSQL that all tests share, with so many servers.
    pub(crate) fn start(way: Way, servers: usize) -> Self {
        Self::with(way, |settings| settings.default_pool_size = servers)
    }

    pub(crate) fn with(way: Way, change: impl FnOnce(&mut Settings)) -> Self {
        Self::beside(way, alone(way), change)
    }

    /// Before whatever listens at a port, instead of that PostgreSQL.
    pub(crate) fn before(way: Way, port: u16, change: impl FnOnce(&mut Settings)) -> Self {
        Self::with(way, |settings| {
            let any = ANY_DATABASE.to_owned();
            settings.databases.insert(any, at(port));
            change(settings);
        })
    }

    /// The same with session pooling.
    pub(crate) fn of_sessions(way: Way, port: u16, servers: usize) -> Self {
        Self::before(way, port, |settings| {
            settings.pool_mode = PoolMode::Session;
            settings.default_pool_size = servers;
        })
    }

    /// RELOAD reads the same settings again, as from a file. While it does, `meanwhile`, the proxy serves nobody.
    pub(crate) fn that_reloads(
        way: Way,
        meanwhile: impl Fn() + Send + 'static,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let alone = alone(way);
        Self::begin(way, alone, Some(Box::new(meanwhile)), change)
    }

    /// Beside another one, which has the ends.
    pub(crate) fn beside(
        way: Way,
        alone: Option<MutexGuard<'static, ()>>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        Self::begin(way, alone, None, change)
    }

    fn begin(
        way: Way,
        alone: Option<MutexGuard<'static, ()>>,
        reloads: Option<Box<dyn Fn() + Send>>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let database = at(postgres::shared().port);
        let mut settings = Settings {
            listen: vec!["127.0.0.1:0".parse().expect("an address")],
            databases: HashMap::from([(ANY_DATABASE.to_owned(), database)]),
            cgroup: (way != Way::Plain).then(bpfdb_tests::server::cgroup::own),
            always_slow: way == Way::Slow,
            ..Settings::default()
        };
        change(&mut settings);
        let (sender, receiver) = channel();
        let thread = thread::spawn(move || {
            let source = reloads.map(|meanwhile| (settings.clone(), meanwhile));
            let (mut proxy, stopper) = Proxy::new(settings).expect("a proxy");
            if let Some((settings, meanwhile)) = source {
                let warnings = Vec::new();
                let file = move || File {
                    settings: settings.clone(),
                    warnings: warnings.clone(),
                };
                proxy.on_reload(move || {
                    meanwhile();
                    Ok(file())
                });
            }
            let port = proxy.address().expect("an address").port();
            sender
                .send((port, proxy.metrics_address(), stopper))
                .expect("it is awaited");
            proxy.run().expect("it runs");
            proxy.kernel_requests()
        });
        let (port, metrics, stopper) = receiver.recv().expect("it has started");
        Self {
            way,
            port,
            metrics,
            stopper,
            thread: Some(thread),
            alone,
        }
    }

    pub(crate) fn client(&self) -> Wire {
        Wire::connect(self.port, postgres::USER, &[])
    }

    /// Has it ended by itself?
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// What keeps others from the ends, for a successor.
    pub(crate) fn pass_ends(&mut self) -> Option<MutexGuard<'static, ()>> {
        self.alone.take()
    }

    /// Ends it. If there are programs that serve, they have brought so many requests at least, and else none.
    pub(crate) fn brought(self, at_least: u64) {
        let way = self.way;
        let brought = self.stop();
        let is_right = match way {
            Way::Kernel => brought >= at_least,
            Way::Slow | Way::Plain => brought == 0,
        };
        assert!(is_right, "{way:?}: {brought}, not {at_least}");
    }

    /// Ends it; how many requests were brought by the kernel.
    pub(crate) fn stop(mut self) -> u64 {
        self.stopper.stop();
        self.thread
            .take()
            .expect("it runs")
            .join()
            .expect("it has not failed")
    }
}

/// The database at a port of this machine.
fn at(port: u16) -> Database {
    let text = format!("host=127.0.0.1 port={port}");
    text.parse().expect("a database")
}

/// Of two proxies in a cgroup one has the ends of a database.
fn alone(way: Way) -> Option<MutexGuard<'static, ()>> {
    (way != Way::Plain).then(|| bpfdb_tests::serial::lock("ends"))
}

impl Drop for TestProxy {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
