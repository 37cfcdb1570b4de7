//! The clients whose commands wait for keys: their order for each key, and which keys were written.
//!
//! ```text
//!  BLPOP a b ─► attempt ─► nothing ─► wait(): a place for each key ─► attempt ─► sleeps
//!                                                                       ▲         │
//!  LPUSH b ──► WrittenKeys ──► note(): b is ready ──► server/waiters.rs ┘         │
//!                                                     in the order of places      ▼
//!               CLIENT UNBLOCK, timeout, the client vanishes: the places go with the job
//! ```
//!
//! Invariants
//!  1. A client that waits has a place in the order of each key, and in the kernel's table, from before its last
//!     attempt in vain until it waits no longer: [`Place`] gives all of them back when it is dropped. So
//!     a write of which that attempt has seen nothing makes the key ready.
//!  2. Ready keys are served in the order in which they were written, each to those that wait for it in
//!     the order in which they began to wait. One that is served in vain keeps its place.

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bpfdb::{ValueType, WatchToken, WrittenKeys};
use rustc_hash::FxHashMap;

use crate::kernel::waiting::KernelWaiting;

/// When a key is looked at again that was locked.
const AGAIN: Duration = Duration::from_millis(2);
/// How often keys are compared with what they were, because others than the server may write.
const COMPARE: Duration = Duration::from_millis(100);
/// So many of them at a time.
const COMPARED_MAX: usize = 256;

/// Why a client waits no longer, although no key was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unblocked {
    /// As if its time were over.
    TimedOut,
    /// By an error.
    Error,
}

/// What a client is to do that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    No,
    /// Its key with this number was written.
    Key(usize),
    End(Unblocked),
}

/// One that waits for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    /// Of its session.
    pub(crate) index: u32,
    /// Which of its keys it is.
    number: usize,
    /// When it has begun to wait: a number that no other has.
    turn: u64,
    /// It takes elements of a value of this type: when it finds none, those behind it find none either.
    pub(crate) takes: Option<ValueType>,
}

#[derive(Debug)]
struct Client {
    turn: u64,
    /// Stored keys, with their hashes.
    keys: Vec<(Vec<u8>, u64)>,
    /// Not for ever.
    is_timed: bool,
    woken: Woken,
}

#[derive(Debug, Default)]
struct Key {
    waiters: BTreeMap<u64, Waiter>,
    /// How many of them take what.
    kinds: FxHashMap<Option<ValueType>, usize>,
    is_ready: bool,
    /// What it was when it was compared last.
    token: Option<WatchToken>,
}

#[derive(Debug)]
struct Table {
    kernel: KernelWaiting,
    clients: FxHashMap<u32, Client>,
    keys: BTreeMap<Vec<u8>, Key>,
    ready: VecDeque<Vec<u8>>,
    /// Those that are to wait no longer.
    unblocked: VecDeque<u32>,
    /// Keys that were locked, and when they are ready again.
    locked: BTreeSet<Vec<u8>>,
    locked_until: Option<Instant>,
    next_turn: u64,
    /// When keys are compared next, and behind which one.
    compare_at: Option<Instant>,
    compared: Vec<u8>,
}

/// All that wait.
#[derive(Clone, Debug)]
pub(crate) struct Waiting(Rc<RefCell<Table>>);

/// The places of a client in the order of its keys.
#[derive(Debug)]
pub(crate) struct Place {
    waiting: Waiting,
    index: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.waiting.0.borrow_mut().remove(self.index);
    }
}

impl Waiting {
    pub(crate) fn new(kernel: KernelWaiting) -> Self {
        Self(Rc::new(RefCell::new(Table {
            kernel,
            clients: FxHashMap::default(),
            keys: BTreeMap::new(),
            ready: VecDeque::new(),
            unblocked: VecDeque::new(),
            locked: BTreeSet::new(),
            locked_until: None,
            next_turn: 0,
            compare_at: None,
            compared: Vec::new(),
        })))
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().clients.len()
    }

    /// Of these, those that do not wait for ever.
    pub(crate) fn timed(&self) -> usize {
        let table = self.0.borrow();
        let timed = table.clients.values().filter(|client| client.is_timed);
        timed.count()
    }

    /// How many keys are waited for.
    pub(crate) fn keys(&self) -> usize {
        self.0.borrow().keys.len()
    }

    /// The client of this session waits, for as long as the result lives, for keys with these hashes.
    pub(crate) fn wait(
        &self,
        index: u32,
        keys: Vec<(Vec<u8>, u64)>,
        takes: Option<ValueType>,
        is_timed: bool,
    ) -> Place {
        self.0.borrow_mut().add(index, keys, takes, is_timed);
        Place {
            waiting: self.clone(),
            index,
        }
    }

    /// Are those that wait for this key about to be served?
    pub(crate) fn is_contended(&self, key: &[u8]) -> bool {
        let table = self.0.borrow();
        table.keys.get(key).is_some_and(|key| key.is_ready) || table.locked.contains(key)
    }

    // ---- What has happened ---------------------------------------------------------

    /// These keys were written, and the writes are committed.
    pub(crate) fn note(&self, written: &WrittenKeys) {
        let mut table = self.0.borrow_mut();
        match written.keys() {
            Some(keys) => keys.iter().for_each(|key| table.make_ready(key)),
            None => {
                let all: Vec<Vec<u8>> = table.keys.keys().cloned().collect();
                all.iter().for_each(|key| table.make_ready(key));
            }
        }
    }

    /// A client has found a key locked, or something else that passes: all that wait for its keys are
    /// served in a moment.
    pub(crate) fn try_again(&self, index: u32) {
        let mut table = self.0.borrow_mut();
        let Some(client) = table.clients.get(&index) else {
            return;
        };
        let keys: Vec<Vec<u8>> = client.keys.iter().map(|(key, _)| key.clone()).collect();
        table.locked.extend(keys);
        table
            .locked_until
            .get_or_insert_with(|| Instant::now() + AGAIN);
    }

    /// CLIENT UNBLOCK: does the client of this session wait?
    pub(crate) fn unblock(&self, index: u32, how: Unblocked) -> bool {
        let mut table = self.0.borrow_mut();
        let Some(client) = table.clients.get_mut(&index) else {
            return false;
        };
        if matches!(client.woken, Woken::End(_)) {
            return false;
        }
        client.woken = Woken::End(how);
        table.unblocked.push_back(index);
        true
    }

    // ---- Whose turn it is ---------------------------------------------------------------

    /// Is a key ready?
    pub(crate) fn has_ready(&self) -> bool {
        !self.0.borrow().ready.is_empty()
    }

    /// Is a client to wait no longer?
    pub(crate) fn has_unblocked(&self) -> bool {
        !self.0.borrow().unblocked.is_empty()
    }

    /// The session of one that is to wait no longer.
    pub(crate) fn next_unblocked(&self) -> Option<u32> {
        self.0.borrow_mut().unblocked.pop_front()
    }

    /// The key that is to be served next, which is not ready any more.
    pub(crate) fn next_ready(&self) -> Option<Vec<u8>> {
        let mut table = self.0.borrow_mut();
        while let Some(name) = table.ready.pop_front() {
            if let Some(key) = table.keys.get_mut(&name) {
                key.is_ready = false;
                return Some(name);
            }
        }
        None
    }

    /// The next one that waits for a key, `behind` another one; but none that takes elements of these
    /// types.
    pub(crate) fn next_waiter(
        &self,
        key: &[u8],
        behind: Option<Waiter>,
        without: &[ValueType],
    ) -> Option<Waiter> {
        let table = self.0.borrow();
        let key = table.keys.get(key)?;
        let is_wanted =
            |takes: &Option<ValueType>| takes.is_none_or(|kind| !without.contains(&kind));
        // There may be many of those that are not.
        if !key.kinds.keys().any(is_wanted) {
            return None;
        }
        let first = behind.map_or(0, |waiter| waiter.turn + 1);
        let mut waiters = key.waiters.range(first..).map(|(_, &waiter)| waiter);
        waiters.find(|waiter| is_wanted(&waiter.takes))
    }

    /// Tells one that waits that its key was written.
    pub(crate) fn wake(&self, waiter: Waiter) {
        let mut table = self.0.borrow_mut();
        if let Some(client) = table.clients.get_mut(&waiter.index)
            && client.woken == Woken::No
        {
            client.woken = Woken::Key(waiter.number);
        }
    }

    /// Does it still wait?
    pub(crate) fn waits(&self, waiter: Waiter) -> bool {
        let table = self.0.borrow();
        let client = table.clients.get(&waiter.index);
        client.is_some_and(|client| client.turn == waiter.turn)
    }

    /// What the client of this session is to do; said once, unless it is to wait no longer.
    pub(crate) fn take_woken(&self, index: u32) -> Woken {
        let mut table = self.0.borrow_mut();
        let Some(client) = table.clients.get_mut(&index) else {
            return Woken::No;
        };
        match client.woken {
            Woken::Key(_) => std::mem::replace(&mut client.woken, Woken::No),
            other => other,
        }
    }

    // ---- What is done at a time --------------------------------------------------------

    /// When [`Waiting::make_due_ready`] or [`Waiting::due_for_comparison`] has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        let table = self.0.borrow();
        [table.locked_until, table.compare_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Keys that were locked a moment ago are ready.
    pub(crate) fn make_due_ready(&self, now: Instant) {
        let mut table = self.0.borrow_mut();
        if table.locked_until.is_some_and(|until| until <= now) {
            table.locked_until = None;
            for key in std::mem::take(&mut table.locked) {
                table.make_ready(&key);
            }
        }
    }

    /// Keys that are to be compared now, each with the session of one that waits for it.
    pub(crate) fn due_for_comparison(&self, now: Instant) -> Vec<(Vec<u8>, u32)> {
        let mut table = self.0.borrow_mut();
        if table.compare_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        table.compare_at = (!table.keys.is_empty()).then_some(now + COMPARE);
        let behind = (Bound::Excluded(table.compared.clone()), Bound::Unbounded);
        let due: Vec<(Vec<u8>, u32)> = (table.keys.range(behind))
            .filter_map(|(name, key)| {
                let (_, first) = key.waiters.first_key_value()?;
                Some((name.clone(), first.index))
            })
            .take(COMPARED_MAX)
            .collect();
        // From the beginning again, if these were the last ones.
        let last = due.last().filter(|_| due.len() == COMPARED_MAX);
        table.compared = last.map(|(name, _)| name.clone()).unwrap_or_default();
        due
    }

    /// The key is so now. Ready if it was something else, or is compared for the first time.
    pub(crate) fn compare(&self, name: &[u8], now: WatchToken) {
        let mut table = self.0.borrow_mut();
        let Some(key) = table.keys.get_mut(name) else {
            return;
        };
        let is_as_it_was = key.token.is_some_and(|token| token.still_holds(&now));
        key.token = Some(now);
        if !is_as_it_was {
            table.make_ready(name);
        }
    }
}

impl Key {
    fn remove(&mut self, turn: u64) {
        let Some(waiter) = self.waiters.remove(&turn) else {
            return;
        };
        if let Some(others) = self.kinds.get_mut(&waiter.takes) {
            *others -= 1;
            if *others == 0 {
                self.kinds.remove(&waiter.takes);
            }
        }
    }
}

impl Table {
    fn add(
        &mut self,
        index: u32,
        keys: Vec<(Vec<u8>, u64)>,
        takes: Option<ValueType>,
        is_timed: bool,
    ) {
        debug_assert!(!self.clients.contains_key(&index), "one command at a time");
        let turn = self.next_turn;
        self.next_turn += 1;
        for (number, (name, hash)) in keys.iter().enumerate() {
            self.kernel.raise(*hash);
            let waiter = Waiter {
                index,
                number,
                turn,
                takes,
            };
            let key = self.keys.entry(name.clone()).or_default();
            // Of a key that it names twice the first one counts.
            if let Entry::Vacant(place) = key.waiters.entry(turn) {
                place.insert(waiter);
                *key.kinds.entry(takes).or_default() += 1;
            }
        }
        let client = Client {
            turn,
            keys,
            is_timed,
            woken: Woken::No,
        };
        self.clients.insert(index, client);
        self.compare_at
            .get_or_insert_with(|| Instant::now() + COMPARE);
    }

    fn remove(&mut self, index: u32) {
        let Some(client) = self.clients.remove(&index) else {
            return;
        };
        for (name, hash) in client.keys {
            self.kernel.lower(hash);
            if let Some(key) = self.keys.get_mut(&name) {
                key.remove(client.turn);
                if key.waiters.is_empty() {
                    self.keys.remove(&name);
                    self.locked.remove(&name);
                }
            }
        }
        if self.keys.is_empty() {
            self.ready.clear();
            self.locked_until = None;
            self.compare_at = None;
        }
    }

    fn make_ready(&mut self, name: &[u8]) {
        if let Some(key) = self.keys.get_mut(name)
            && !key.is_ready
        {
            key.is_ready = true;
            self.ready.push_back(name.to_vec());
        }
    }
}
