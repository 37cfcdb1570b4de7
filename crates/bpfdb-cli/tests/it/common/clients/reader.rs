//! A synchronous client that only reads: what it was shown is durable, by whichever client, and in
//! whichever mode.

use super::super::Connection;
use super::step::Key;
use super::{Client, Life};

pub struct Reader {
    /// For each client the last mark that it was shown; 0: none.
    shown: Vec<u64>,
    /// Clients that have marks.
    marked: Vec<usize>,
}

impl Reader {
    pub fn new(clients: &[Client]) -> Self {
        let marked = clients.iter().filter(|client| client.has_mark());
        Self {
            shown: vec![0; clients.len()],
            marked: marked.map(|client| client.id).collect(),
        }
    }

    pub fn work(&mut self, life: Life<'_>) {
        let Some(mut connection) = Connection::try_open(life.port) else {
            return;
        };
        let mode = connection.try_ask(&["CLIENT", "DURABILITY", "SYNC"]);
        if mode.is_none() {
            return;
        }
        for &id in self.marked.iter().cycle() {
            let Some(told) = connection.try_ask(&["GET", &Key::Mark.of(&id)]) else {
                return;
            };
            // Absent, or locked.
            let Ok(step) = told.parse() else {
                continue;
            };
            self.shown[id] = self.shown[id].max(step);
        }
    }

    /// What it was shown is promised.
    pub fn tell(&self, clients: &mut [Client]) {
        for (client, &step) in clients.iter_mut().zip(&self.shown) {
            if step > 0 {
                client.history.promise(step);
            }
        }
    }
}
