//! The reference engine: operators on plain maps.
//!
//! 1. A transaction holds every lock it took until it ends; nobody waits.
//! 2. What a transaction writes stays in its session until COMMIT.
//! 3. A commit gets the next timestamp; a snapshot is a timestamp, and sees of
//!    each key the newest version that is not newer than itself.
//! 4. After an Error a read-write transaction is FAILED: it holds its locks,
//!    and can only end.
//! 5. A version may expire: from its time on it counts as absent. A transaction
//!    judges all versions by one time: a snapshot by that of its BEGIN, another
//!    by that at which it first had to judge.
//! 6. A value has a type, which nothing but a write of the key changes. A read of
//!    a string says WRONG_TYPE of any other: it has read, and fails nothing.
//! 7. A read-write transaction that scans holds the scan lock: until it ends, or a scan fails it, nobody else
//!    makes a key come or go, and no second one scans. It has a conflict itself if a transaction that is open has
//!    done so. A version that expires makes its key go one day.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Answer, Error, Fault, Gauges, Op, Outcome};

type Key = Vec<u8>;
/// `None`: no value here.
type Value = Option<Content>;
type Timestamp = u64;
/// Milliseconds; has nothing to do with timestamps.
type Time = u64;

const STRING: u8 = 0;

#[derive(Clone)]
struct Content {
    /// 0: a string.
    kind: u8,
    bytes: Vec<u8>,
    until: Option<Time>,
}

/// The limits of the engine that a schedule can reach.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Versions of a record: the newest, and older ones for snapshots.
    pub versions: usize,
    pub locks_max: usize,
    pub key_max: usize,
    pub value_max: usize,
    pub fault: Option<Fault>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            versions: 4,
            locks_max: 1000,
            key_max: 512,
            value_max: 512 << 20,
            fault: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(u64);

#[derive(Default)]
struct Session {
    state: State,
    /// Changes of the open transaction.
    writes: BTreeMap<Key, Value>,
    /// By which the open transaction judges, once it is taken.
    time: Option<Time>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Write,
    Failed,
    Read(Timestamp),
}

#[derive(Default)]
struct Lock {
    writer: Option<SessionId>,
    readers: BTreeSet<SessionId>,
}

struct Version {
    stamp: Timestamp,
    value: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Shared,
    Exclusive,
}

pub struct Model {
    rules: Rules,
    clock: Timestamp,
    now: Time,
    opened: u64,
    sessions: BTreeMap<SessionId, Session>,
    locks: BTreeMap<Key, Lock>,
    scan_lock: Option<SessionId>,
    /// Oldest first; no versions: never written, or forgotten.
    records: BTreeMap<Key, Vec<Version>>,
}

impl Model {
    pub fn new(rules: Rules) -> Model {
        assert!(rules.versions >= 1);
        Model {
            rules,
            clock: 0,
            now: 0,
            opened: 0,
            sessions: BTreeMap::new(),
            locks: BTreeMap::new(),
            scan_lock: None,
            records: BTreeMap::new(),
        }
    }

    pub fn open(&mut self) -> SessionId {
        self.opened += 1;
        let id = SessionId(self.opened);
        self.sessions.insert(id, Session::default());
        id
    }

    /// Rolls back what is open.
    pub fn close(&mut self, id: SessionId) {
        if !self.faulty(Fault::CloseKeepsLocks) {
            self.unlock_all(id);
        }
        self.sessions.remove(&id);
    }

    /// Runs one operator. RECONNECT keeps the id.
    pub fn apply(&mut self, id: SessionId, op: &Op) -> Outcome {
        match op {
            Op::Begin => self.begin(id, State::Write),
            Op::BeginReadOnly => {
                let stale = u64::from(self.faulty(Fault::SnapshotStale));
                self.begin(id, State::Read(self.clock.saturating_sub(stale)))
            }
            Op::Get(key) => self.get(id, key),
            Op::GetForUpdate(key) => self.get_for_update(id, key),
            Op::GetAny(key) => self.read(id, key).map(answer),
            Op::Set(key, value) => self.set(id, key, STRING, value, None),
            Op::SetFor(key, value, time) => self.set(id, key, STRING, value, Some(self.now + time)),
            Op::SetTyped(key, kind, value) => self.set(id, key, *kind, value, None),
            Op::Expiry(key) => self.expiry(id, key),
            Op::Delete(key) => self.delete(id, key),
            Op::Scan => self.scan(id),
            Op::Commit => self.commit(id),
            Op::Rollback => self.rollback(id),
            Op::Reconnect => {
                self.close(id);
                self.sessions.insert(id, Session::default());
                Ok(Answer::Done)
            }
            Op::Pass(time) => {
                self.now += time;
                Ok(Answer::Done)
            }
            Op::Sweep => {
                self.sweep();
                Ok(Answer::Done)
            }
        }
    }

    pub fn gauges(&self) -> Gauges {
        let locks = |lock: &Lock| lock.readers.len() + usize::from(lock.writer.is_some());
        let open = |session: &&Session| session.state != State::Idle;
        Gauges {
            records: self.records.len() as u64,
            locks: self.locks.values().map(locks).sum::<usize>() as u64,
            transactions: self.sessions.values().filter(open).count() as u64,
            history: self.records.values().map(|v| v.len() as u64 - 1).sum(),
            slots: self.records.values().map(|v| v.len() as u64).sum(),
        }
    }

    /// Of all keys and values that are kept.
    pub fn bytes(&self) -> u64 {
        let value = |version: &Version| version.value.as_ref().map_or(0, |v| v.bytes.len());
        let record = |(key, versions): (&Key, &Vec<Version>)| {
            key.len() + versions.iter().map(value).sum::<usize>()
        };
        self.records.iter().map(record).sum::<usize>() as u64
    }

    /// Forgets versions that nobody can see, and records without a value: it is
    /// deleted, or has expired for everybody and is not locked.
    pub fn sweep(&mut self) {
        for key in self.records.keys().cloned().collect::<Vec<_>>() {
            self.prune(&key);
        }
        let horizon = self.horizon();
        let locks = &self.locks;
        self.records.retain(|key, versions| match &versions[..] {
            [Version { value: None, .. }] => false,
            [
                Version {
                    value: Some(content),
                    ..
                },
            ] => locks.contains_key(key) || content.until.is_none_or(|until| until > horizon),
            _ => true,
        });
    }

    // ---- Operators ---------------------------------------------------------

    fn begin(&mut self, id: SessionId, state: State) -> Outcome {
        match self.state(id) {
            State::Idle => self.session(id).state = state,
            _ => return Err(Error::WrongState),
        }
        if matches!(state, State::Read(_)) {
            self.session(id).time = Some(self.now);
        }
        Ok(Answer::Done)
    }

    fn get(&mut self, id: SessionId, key: &Key) -> Outcome {
        let value = self.read(id, key)?;
        self.string(value).map(answer)
    }

    /// Has no Error that fails the transaction.
    fn string(&self, value: Value) -> Result<Value, Error> {
        match value.as_ref().is_some_and(|content| content.kind != STRING) {
            true if !self.faulty(Fault::AnyTypeIsRead) => Err(Error::WrongType),
            _ => Ok(value),
        }
    }

    fn expiry(&mut self, id: SessionId, key: &Key) -> Outcome {
        let value = self.read(id, key)?;
        Ok(match self.string(value)? {
            None => Answer::Absent,
            Some(Content { until: None, .. }) => Answer::Done,
            Some(Content {
                until: Some(time), ..
            }) => Answer::Left(time as i64 - self.now as i64),
        })
    }

    fn read(&mut self, id: SessionId, key: &Key) -> Result<Value, Error> {
        self.check_not_failed(id)?;
        self.check_key(id, key)?;
        let value = match self.state(id) {
            State::Idle | State::Failed => self.newest(id, key),
            State::Read(_) if self.faulty(Fault::SnapshotMoves) => self.newest(id, key),
            State::Read(snapshot) => self.version_at(key, snapshot),
            State::Write => {
                self.lock_to_read(id, key)?;
                self.newest(id, key)
            }
        };
        Ok(self.judged(id, value))
    }

    fn get_for_update(&mut self, id: SessionId, key: &Key) -> Outcome {
        self.check_not_failed(id)?;
        self.check_key(id, key)?;
        match self.state(id) {
            State::Failed | State::Idle => Err(Error::WrongState),
            State::Read(_) => Err(Error::ReadOnly),
            State::Write => {
                self.lock(id, key, Mode::Exclusive)?;
                let value = self.newest(id, key);
                let value = self.judged(id, value);
                self.string(value).map(answer)
            }
        }
    }

    /// What has expired already is deleted.
    fn set(
        &mut self,
        id: SessionId,
        key: &Key,
        kind: u8,
        value: &[u8],
        until: Option<Time>,
    ) -> Outcome {
        let fits = value.len() <= self.rules.value_max;
        self.check(id, fits, Error::ValueTooLarge)?;
        let old = self.newest(id, key);
        let kept = match &old {
            Some(old) if self.faulty(Fault::SetKeepsExpiry) => old.until,
            _ => None,
        };
        let kind = match &old {
            Some(old) if self.faulty(Fault::SetKeepsType) => old.kind,
            _ => kind,
        };
        let content = Content {
            kind,
            bytes: value.to_vec(),
            until: until.or(kept),
        };
        let over = until.is_some_and(|until| until <= self.time_of(id));
        self.change(id, key, (!over).then_some(content))?;
        Ok(Answer::Done)
    }

    fn delete(&mut self, id: SessionId, key: &Key) -> Outcome {
        match self.change(id, key, None)? {
            Some(_) => Ok(Answer::Done),
            None => Ok(Answer::Absent),
        }
    }

    fn scan(&mut self, id: SessionId) -> Outcome {
        self.check_not_failed(id)?;
        if self.state(id) == State::Write {
            self.lock_to_scan(id)?;
        }
        let own = self.sessions[&id].writes.keys();
        let keys: BTreeSet<Key> = self.records.keys().chain(own).cloned().collect();
        let seen = |key: &Key| {
            let value = match self.state(id) {
                State::Read(snapshot) => self.version_at(key, snapshot),
                _ => self.newest(id, key),
            };
            self.judged(id, value).is_some()
        };
        Ok(Answer::Keys(keys.into_iter().filter(seen).collect()))
    }

    fn commit(&mut self, id: SessionId) -> Outcome {
        let state = self.state(id);
        match state {
            State::Idle => return Err(Error::WrongState),
            State::Failed if self.faulty(Fault::FailedCommits) => self.publish(id),
            State::Write => self.publish(id),
            State::Failed | State::Read(_) => {}
        }
        self.end(id);
        if state == State::Failed {
            Err(Error::RolledBack)
        } else {
            Ok(Answer::Done)
        }
    }

    fn rollback(&mut self, id: SessionId) -> Outcome {
        if self.state(id) == State::Idle {
            return Err(Error::WrongState);
        }
        if self.faulty(Fault::RollbackKeepsChanges) {
            self.publish(id);
        }
        if self.faulty(Fault::LeakedLock) {
            self.session(id).state = State::Idle;
            self.session(id).writes.clear();
            self.unlock_writer(id);
        } else {
            self.end(id);
        }
        Ok(Answer::Done)
    }

    // ---- Transactions ------------------------------------------------------

    fn session(&mut self, id: SessionId) -> &mut Session {
        self.sessions.get_mut(&id).expect("session is open")
    }

    fn state(&self, id: SessionId) -> State {
        self.sessions[&id].state
    }

    fn faulty(&self, fault: Fault) -> bool {
        self.rules.fault == Some(fault)
    }

    /// An Error: it also fails the transaction, if there is one.
    fn check(&mut self, id: SessionId, holds: bool, error: Error) -> Result<(), Error> {
        if holds {
            return Ok(());
        }
        if self.state(id) == State::Write {
            self.session(id).state = State::Failed;
        }
        Err(error)
    }

    fn check_not_failed(&self, id: SessionId) -> Result<(), Error> {
        match self.state(id) {
            State::Failed => Err(Error::WrongState),
            _ => Ok(()),
        }
    }

    fn check_key(&mut self, id: SessionId, key: &Key) -> Result<(), Error> {
        let fits = (1..=self.rules.key_max).contains(&key.len());
        self.check(id, fits, Error::KeyTooLarge)
    }

    /// SET and DELETE, which is told the value before. A DELETE that finds
    /// nothing changes nothing: it has read.
    fn change(&mut self, id: SessionId, key: &Key, value: Value) -> Result<Value, Error> {
        self.check_not_failed(id)?;
        let reads_only = matches!(self.state(id), State::Read(_));
        self.check(id, !reads_only, Error::ReadOnly)?;
        self.check_key(id, key)?;
        let in_transaction = self.state(id) == State::Write;
        if in_transaction {
            self.lock(id, key, Mode::Exclusive)?;
        }
        let before = match value {
            None => {
                let newest = self.newest(id, key);
                self.judged(id, newest)
            }
            Some(_) => None,
        };
        let changes = value.is_some() || before.is_some();
        if !in_transaction {
            self.check(id, self.is_free(key, changes), Error::Conflict)?;
        }
        if !changes {
            return Ok(before);
        }
        self.check(id, self.has_room(key), Error::VersionsFull)?;
        let keeps_keys = is_plain(&value) && self.replaces_plain(id, key);
        self.check(id, keeps_keys || !self.others_scan(id), Error::Conflict)?;
        if in_transaction {
            self.session(id).writes.insert(key.clone(), value);
        } else {
            self.clock += 1;
            self.install(key, self.clock, value);
        }
        Ok(before)
    }

    /// Makes all changes of the transaction visible under one timestamp.
    fn publish(&mut self, id: SessionId) {
        let writes = std::mem::take(&mut self.session(id).writes);
        if writes.is_empty() {
            return;
        }
        self.clock += 1;
        let late = u64::from(self.faulty(Fault::CommitInParts));
        for (i, (key, value)) in writes.into_iter().enumerate() {
            let stamp = if i == 0 {
                self.clock
            } else {
                self.clock + late
            };
            self.install(&key, stamp, value);
        }
    }

    fn end(&mut self, id: SessionId) {
        self.unlock_all(id);
        *self.session(id) = Session::default();
    }

    // ---- Time --------------------------------------------------------------

    /// By which the session judges now.
    fn time_of(&mut self, id: SessionId) -> Time {
        let now = self.now;
        match self.state(id) {
            State::Write | State::Read(_) if !self.faulty(Fault::TimeMoves) => {
                *self.session(id).time.get_or_insert(now)
            }
            _ => now,
        }
    }

    fn judged(&mut self, id: SessionId, value: Value) -> Value {
        let until = value.as_ref()?.until;
        let over = until.is_some_and(|until| until <= self.time_of(id));
        value.filter(|_| !over || self.faulty(Fault::ExpiredIsSeen))
    }

    /// No open transaction judges by an earlier time.
    fn horizon(&self) -> Time {
        let times = self.sessions.values().filter_map(|session| session.time);
        match times.min() {
            Some(oldest) if !self.faulty(Fault::SweepTooEarly) => oldest,
            _ => self.now,
        }
    }

    // ---- Versions ----------------------------------------------------------

    /// What the session sees outside a snapshot: its own change or the newest
    /// committed version.
    fn newest(&self, id: SessionId, key: &Key) -> Value {
        if let Some(own) = self.sessions[&id].writes.get(key) {
            return own.clone();
        }
        if self.faulty(Fault::DirtyRead) {
            let mut changes = self.sessions.values().filter_map(|s| s.writes.get(key));
            if let Some(dirty) = changes.next() {
                return dirty.clone();
            }
        }
        self.records
            .get(key)
            .and_then(|versions| versions.last()?.value.clone())
    }

    fn version_at(&self, key: &Key, snapshot: Timestamp) -> Value {
        let versions = self.records.get(key)?;
        versions
            .iter()
            .rfind(|v| v.stamp <= snapshot)?
            .value
            .clone()
    }

    fn install(&mut self, key: &Key, stamp: Timestamp, value: Value) {
        self.prune(key);
        let versions = self.records.entry(key.clone()).or_default();
        // Where nothing is older, absence needs no version.
        if matches!(versions[..], [Version { value: None, .. }]) {
            versions.clear();
        }
        versions.push(Version { stamp, value });
        self.prune(key);
    }

    /// A running snapshot sees versions[i].
    fn is_needed(&self, versions: &[Version], i: usize) -> bool {
        let from = versions[i].stamp;
        let until = versions
            .get(i + 1)
            .map_or(Timestamp::MAX, |next| next.stamp);
        let sees = |session: &Session| match session.state {
            State::Read(snapshot) => (from..until).contains(&snapshot),
            _ => false,
        };
        self.sessions.values().any(sees)
    }

    /// Drops older versions that no running snapshot sees.
    fn prune(&mut self, key: &Key) {
        let Some(versions) = self.records.get(key) else {
            return;
        };
        let newest = versions.len() - 1;
        let early = self.faulty(Fault::PruneTooEarly);
        let keep = |i| i == newest || (!early && self.is_needed(versions, i));
        let kept: Vec<bool> = (0..versions.len()).map(keep).collect();
        let mut kept = kept.into_iter();
        self.records
            .get_mut(key)
            .unwrap()
            .retain(|_| kept.next().unwrap());
    }

    /// There is room for a new version: for the newest one as an older one, if a
    /// snapshot needs it, and even if one will that begins before COMMIT.
    fn has_room(&self, key: &Key) -> bool {
        let Some((newest, older)) = self.records.get(key).and_then(|v| v.split_last()) else {
            return true;
        };
        let versions = &self.records[key];
        let needed = |i: &usize| self.is_needed(versions, *i);
        let kept = (0..older.len()).filter(needed).count();
        if self.faulty(Fault::PruneTooEarly) || (kept == 0 && newest.value.is_none()) {
            return true;
        }
        let room = self.rules.versions + usize::from(self.faulty(Fault::VersionTooMany));
        kept + usize::from(self.is_needed(versions, older.len())) < room
    }

    // ---- Locks -------------------------------------------------------------

    /// Takes the scan lock; or fails the transaction, which then holds it no longer.
    fn lock_to_scan(&mut self, id: SessionId) -> Result<(), Error> {
        if self.faulty(Fault::ScanUnprotected) {
            return Ok(());
        }
        self.time_of(id);
        self.check(id, !self.others_scan(id), Error::Conflict)?;
        self.scan_lock = Some(id);
        let others = self.sessions.iter().filter(|(other, _)| **other != id);
        let mut changed = others.flat_map(|(_, session)| &session.writes);
        let is_settled = changed
            .all(|(key, value)| is_plain(value) && is_plain(&self.version_at(key, self.clock)));
        let checked = self.check(id, is_settled, Error::Conflict);
        if checked.is_err() {
            self.scan_lock = None;
        }
        checked
    }

    fn others_scan(&self, id: SessionId) -> bool {
        self.scan_lock.is_some_and(|holder| holder != id)
    }

    /// Does a change take the place of a version that makes the key be there? What the session has
    /// written itself has passed already.
    fn replaces_plain(&self, id: SessionId, key: &Key) -> bool {
        let is_own = self.sessions[&id].writes.contains_key(key);
        is_own || is_plain(&self.version_at(key, self.clock))
    }

    fn lock_to_read(&mut self, id: SessionId, key: &Key) -> Result<(), Error> {
        if self.faulty(Fault::NoReadLock) || self.faulty(Fault::DirtyRead) {
            return Ok(());
        }
        if self.faulty(Fault::NoLockOnAbsence) && self.newest(id, key).is_none() {
            return Ok(());
        }
        self.lock(id, key, Mode::Shared)
    }

    /// Takes the lock for the transaction, or fails it.
    fn lock(&mut self, id: SessionId, key: &Key, mode: Mode) -> Result<(), Error> {
        let held = self
            .locks
            .values()
            .filter(|lock| lock.is_held_by(id))
            .count();
        let holds = self.locks.get(key).is_some_and(|lock| lock.is_held_by(id));
        self.check(id, self.may_lock(id, key, mode), Error::Conflict)?;
        self.check(
            id,
            holds || held < self.rules.locks_max,
            Error::TooManyLocks,
        )?;
        self.locks.entry(key.clone()).or_default().take(id, mode);
        Ok(())
    }

    fn may_lock(&self, id: SessionId, key: &Key, mode: Mode) -> bool {
        let Some(lock) = self.locks.get(key) else {
            return true;
        };
        let other_writer = lock.writer.is_some_and(|writer| writer != id)
            && !(mode == Mode::Exclusive && self.faulty(Fault::DirtyWrite));
        let other_readers = lock.readers.iter().any(|reader| *reader != id)
            && !(lock.readers.contains(&id) && self.faulty(Fault::UpgradeIgnoresReaders));
        !other_writer && (mode == Mode::Shared || !other_readers)
    }

    /// For auto-commit: nobody holds the key, or nobody's lock forbids to read.
    fn is_free(&self, key: &Key, changes: bool) -> bool {
        let Some(lock) = self.locks.get(key) else {
            return true;
        };
        let writer = lock.writer.is_some() && !self.faulty(Fault::DirtyWrite);
        let readers = !lock.readers.is_empty() && !self.faulty(Fault::AutoCommitIgnoresReaders);
        !(writer || changes && readers)
    }

    fn unlock_all(&mut self, id: SessionId) {
        for lock in self.locks.values_mut() {
            lock.readers.remove(&id);
        }
        self.scan_lock.take_if(|holder| *holder == id);
        self.unlock_writer(id);
    }

    fn unlock_writer(&mut self, id: SessionId) {
        for lock in self.locks.values_mut() {
            lock.writer.take_if(|writer| *writer == id);
        }
        self.locks
            .retain(|_, lock| lock.writer.is_some() || !lock.readers.is_empty());
    }
}

impl Lock {
    fn is_held_by(&self, id: SessionId) -> bool {
        self.writer == Some(id) || self.readers.contains(&id)
    }

    /// One lock per transaction and key: a reader that writes is the writer.
    fn take(&mut self, id: SessionId, mode: Mode) {
        match mode {
            Mode::Exclusive => {
                self.readers.remove(&id);
                self.writer = Some(id);
            }
            Mode::Shared if self.writer == Some(id) => {}
            Mode::Shared => {
                self.readers.insert(id);
            }
        }
    }
}

/// Does it make its key be there for good?
fn is_plain(value: &Value) -> bool {
    value
        .as_ref()
        .is_some_and(|content| content.until.is_none())
}

fn answer(value: Value) -> Answer {
    match value {
        None => Answer::Absent,
        Some(content) if content.kind == STRING => Answer::Value(content.bytes),
        Some(content) => Answer::Typed(content.kind, content.bytes),
    }
}
