//! A proxy in a thread of the test.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::MutexGuard;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use bpfdb_proxy::config::File;
use bpfdb_proxy::settings::{ANY_DATABASE, Settings};
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
    pub(crate) port: u16,
    pub(crate) metrics: Option<SocketAddr>,
    stopper: Stopper,
    thread: Option<JoinHandle<u64>>,
    /// Of two proxies in a cgroup one has the ends of a database.
    alone: Option<MutexGuard<'static, ()>>,
}

impl TestProxy {
    /// Before the PostgreSQL that all tests share, with so many servers.
    pub(crate) fn start(way: Way, servers: usize) -> Self {
        Self::with(way, |settings| settings.default_pool_size = servers)
    }

    pub(crate) fn with(way: Way, change: impl FnOnce(&mut Settings)) -> Self {
        let alone = (way != Way::Plain).then(|| bpfdb_tests::serial::lock("ends"));
        Self::beside(way, alone, change)
    }

    /// RELOAD reads the same settings again, as from a file.
    pub(crate) fn that_reloads(change: impl FnOnce(&mut Settings)) -> Self {
        Self::begin(Way::Plain, None, true, change)
    }

    /// Beside another one, which has the ends.
    pub(crate) fn beside(
        way: Way,
        alone: Option<MutexGuard<'static, ()>>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        Self::begin(way, alone, false, change)
    }

    fn begin(
        way: Way,
        alone: Option<MutexGuard<'static, ()>>,
        reloads: bool,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let port = postgres::shared().port;
        let database = format!("host=127.0.0.1 port={port}");
        let database = database.parse().expect("a database");
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
            let source = reloads.then(|| settings.clone());
            let (mut proxy, stopper) = Proxy::new(settings).expect("a proxy");
            if let Some(settings) = source {
                let warnings = Vec::new();
                let file = move || File {
                    settings: settings.clone(),
                    warnings: warnings.clone(),
                };
                proxy.on_reload(move || Ok(file()));
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

impl Drop for TestProxy {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
