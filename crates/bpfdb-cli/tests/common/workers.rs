//! Clients that go on until their server is gone, and what must be there afterwards.

use std::time::{Duration, Instant};

use super::{Connection, Served};

/// Each has a pair of keys of its own. Half of them are synchronous.
pub const CLIENTS: usize = 8;
/// What was acknowledged longer ago than this is there, also to clients that are not
/// synchronous: the engine stops writers after a second without a flush, which is in the
/// documents, and looks eight times a second.
const EXPOSURE: Duration = Duration::from_millis(1200);

/// Times at which values were acknowledged.
pub type Acknowledged = Vec<(Instant, u64)>;

pub struct Worker {
    pub id: usize,
    /// The next value of its keys.
    pub next: u64,
    pub acknowledged: Acknowledged,
    /// Hears of each value that was acknowledged: number of the client, and value.
    tell: fn(usize, u64),
}

impl Worker {
    /// All clients, before the first of their transactions.
    pub fn all(tell: fn(usize, u64)) -> Vec<Self> {
        (0..CLIENTS)
            .map(|id| Self {
                id,
                next: 1,
                acknowledged: Acknowledged::new(),
                tell,
            })
            .collect()
    }

    pub fn is_sync(&self) -> bool {
        self.id.is_multiple_of(2)
    }

    /// Transactions until the server is gone. Each writes both of its keys, and what it has
    /// read of its neighbour's.
    pub fn work(&mut self, port: u16) {
        let Some(mut connection) = Connection::try_open(port) else {
            return;
        };
        if self.is_sync()
            && connection
                .try_ask(&["CLIENT", "DURABILITY", "SYNC"])
                .is_none()
        {
            return;
        }
        while let Some(committed) = self.transaction(&mut connection) {
            if committed {
                self.acknowledged.push((Instant::now(), self.next));
                (self.tell)(self.id, self.next);
                self.next += 1;
            }
        }
    }

    /// Was it committed? `None`: nobody knows.
    fn transaction(&self, connection: &mut Connection) -> Option<bool> {
        let (id, value) = (self.id, self.next.to_string());
        connection.try_ask(&["BEGIN"])?;
        let neighbour = format!("{}:a", (id + 1) % CLIENTS);
        let seen = connection.try_ask(&["GET", &neighbour])?;
        let writes = [
            (format!("{id}:a"), value.clone()),
            (format!("{id}:seen"), seen.clone()),
            (format!("{id}:b"), value),
        ];
        for (key, value) in writes {
            if !connection.try_ask(&["SET", &key, &value])?.starts_with('+') {
                connection.try_ask(&["ROLLBACK"])?;
                return Some(false);
            }
        }
        Some(connection.try_ask(&["COMMIT"])? == "+OK")
    }
}

/// What a round finds.
#[derive(Debug, Default)]
pub struct Found {
    /// Commits that were acknowledged and are gone, and the age of the oldest of these.
    pub lost: u64,
    pub age: Duration,
}

/// Looks at the data after a crash: transactions are whole, what they have seen is there, and
/// so is what was acknowledged, as far as it was promised.
pub fn check(server: &Served, workers: &mut [Worker], crash: Instant, in_kernel: bool) -> Found {
    let mut connection = Connection::open(server.port);
    let mut value = |key: String| connection.ask(&["GET", &key]).parse::<u64>().unwrap_or(0);
    let values: Vec<u64> = (0..CLIENTS).map(|id| value(format!("{id}:a"))).collect();
    let mut found = Found::default();
    for (id, worker) in workers.iter_mut().enumerate() {
        let there = values[id];
        assert_eq!(
            there,
            value(format!("{id}:b")),
            "client {id}: half a transaction"
        );
        let neighbour = values[(id + 1) % CLIENTS];
        let seen = value(format!("{id}:seen"));
        assert!(
            seen <= neighbour,
            "client {id} saw {seen}, there is {neighbour}"
        );
        assert!(there <= worker.next, "client {id}: never written");
        for &(when, value) in worker.acknowledged.iter().filter(|told| told.1 > there) {
            let age = crash.saturating_duration_since(when);
            assert!(
                !worker.is_sync(),
                "client {id}: {value} of {there} is gone, {age:?} old"
            );
            assert!(
                !in_kernel,
                "client {id}: {value} of {there} is gone from the kernel"
            );
            assert!(
                age < EXPOSURE,
                "client {id}: {value} of {there}, {age:?} old"
            );
            found.lost += 1;
            found.age = found.age.max(age);
        }
        worker.acknowledged.clear();
        worker.next = there + 1;
    }
    found
}
