//! What shares the engine of a server, and outlives it.

use std::time::Duration;

use bpfdb::Engine;
use bpfdb_tests::steps::Steps;

use super::super::folder;
use super::{Client, Life, goes_on};

/// Between two looks whether the server is gone.
const PATIENCE: Duration = Duration::from_millis(50);

pub struct Beside {
    pub(super) engine: Engine,
    /// Programs of the writers that are embedded.
    pub(super) steps: Steps,
}

impl Beside {
    /// The server at this port has the engine.
    pub fn attach(port: u16, clients: &[Client]) -> Self {
        let engine = Engine::attach(&folder(port)).expect("attached");
        let steps = Steps::load(&engine);
        for client in clients.iter().filter(|one| one.is_embedded()) {
            steps.set_keys(client.id, client.embedded_keys());
        }
        Self { engine, steps }
    }

    /// The embedded writers stop, which have gone on without the server: the test wants to look at
    /// the data. What they did until now is known then.
    pub fn rest(&self, clients: &mut [Client]) {
        for client in clients.iter_mut().filter(|one| one.is_embedded()) {
            client.rest(&self.steps);
        }
    }

    /// How far the embedded writers are, in all.
    pub fn committed(&self, clients: &[Client]) -> u64 {
        let embedded = clients.iter().filter(|one| one.is_embedded());
        let committed = embedded.map(|client| self.steps.progress(client.id).committed);
        committed.sum()
    }

    /// Waits until all commits up to this timestamp are on the disk. False: the server is gone.
    pub(super) fn await_durable(&self, timestamp: u64, life: Life<'_>) -> bool {
        while goes_on(life) {
            if self.engine.await_durable(timestamp, PATIENCE) {
                return true;
            }
        }
        false
    }
}
