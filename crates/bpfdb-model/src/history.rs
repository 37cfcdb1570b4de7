//! Histories: operations and results of clients in a parallel run, for [`check`](crate::check).
//!
//! Every write of a history writes an element that no other write does, so a
//! read shows whose write it saw. There are two workloads:
//!
//! * **Lists**: a write reads the list under the key, appends its element, and
//!   writes it back. A list then shows all writes before it in their order, so
//!   the checker knows the order of the versions of each key completely.
//! * **Registers**: a write stores its element blindly. The order of versions
//!   is known only as far as real time forces it: weaker, but this is how most
//!   programs write.

use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    Lists,
    Registers,
}

pub type Key = u32;
pub type Element = u32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// The elements under the key; empty: the key is absent.
    Read(Key, Vec<Element>),
    Write(Key, Element),
}

/// One transaction, or one auto-commit operator, as its client saw it.
#[derive(Clone, Debug)]
pub struct Transaction {
    pub client: usize,
    /// When its first operator was called, and when its last one had returned.
    pub began: u64,
    pub ended: u64,
    pub committed: bool,
    pub accesses: Vec<Access>,
}

/// Collects the transactions of one client.
pub struct Recorder {
    client: usize,
    clock: Instant,
    open: Option<Transaction>,
    pub done: Vec<Transaction>,
}

impl Recorder {
    /// All recorders of one history share the `clock`.
    pub fn new(client: usize, clock: Instant) -> Recorder {
        Recorder {
            client,
            clock,
            open: None,
            done: Vec::new(),
        }
    }

    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// Call before the first operator.
    pub fn begin(&mut self) {
        let (client, began) = (self.client, self.now());
        let accesses = Vec::new();
        self.open = Some(Transaction {
            client,
            began,
            ended: began,
            committed: false,
            accesses,
        });
    }

    pub fn read(&mut self, key: Key, elements: Vec<Element>) {
        self.access(Access::Read(key, elements));
    }

    pub fn wrote(&mut self, key: Key, element: Element) {
        self.access(Access::Write(key, element));
    }

    fn access(&mut self, access: Access) {
        self.open
            .as_mut()
            .expect("begin() comes first")
            .accesses
            .push(access);
    }

    /// Call after the last operator.
    pub fn end(&mut self, committed: bool) {
        let mut transaction = self.open.take().expect("begin() comes first");
        transaction.committed = committed;
        transaction.ended = self.now();
        self.done.push(transaction);
    }
}

/// Elements as the bytes of a value.
pub fn encode(elements: &[Element]) -> Vec<u8> {
    elements
        .iter()
        .flat_map(|element| element.to_le_bytes())
        .collect()
}

/// `None` if no [`encode`] wrote these bytes.
pub fn decode(value: &[u8]) -> Option<Vec<Element>> {
    let element = |bytes: &[u8]| Some(Element::from_le_bytes(bytes.try_into().ok()?));
    value.chunks(4).map(element).collect()
}
