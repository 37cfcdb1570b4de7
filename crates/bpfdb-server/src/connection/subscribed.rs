//! Subscriptions of a connection, and the messages that it has for others and for itself.

use bpfdb::Change;

/// Bytes that a subscription takes beside its name: its places in four tables.
const OVERHEAD: usize = 160;

/// What a name is that a client has subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A channel: SUBSCRIBE.
    Channel,
    /// A pattern of the names of channels: PSUBSCRIBE.
    Pattern,
    /// A channel of a shard: SSUBSCRIBE. There is one shard.
    Shard,
}

impl Kind {
    /// In the order of their numbers.
    pub(crate) const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];
}

/// How many names of each kind, and the bytes that these take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subscribed {
    names: [u32; Kind::ALL.len()],
    memory: usize,
}

impl Subscribed {
    pub(crate) fn add(&mut self, kind: Kind, name: &[u8]) {
        self.names[kind as usize] += 1;
        self.memory += name.len() + OVERHEAD;
    }

    pub(crate) fn remove(&mut self, kind: Kind, name: &[u8]) {
        self.names[kind as usize] -= 1;
        self.memory -= name.len() + OVERHEAD;
    }

    pub(crate) fn count(&self, kind: Kind) -> u32 {
        self.names[kind as usize]
    }

    /// What Redis counts together in its replies: those of shards alone, the others with each other.
    pub(crate) fn count_with(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Shard => self.count(Kind::Shard),
            Kind::Channel | Kind::Pattern => self.count(Kind::Channel) + self.count(Kind::Pattern),
        }
    }

    pub(crate) fn is_any(&self) -> bool {
        self.names.iter().any(|&names| names > 0)
    }

    pub(crate) fn memory(&self) -> usize {
        self.memory
    }
}

/// Something that was published.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) channel: Vec<u8>,
    pub(crate) text: Vec<u8>,
    /// To a channel of a shard.
    pub(crate) is_of_shard: bool,
}

impl Message {
    fn memory(&self) -> usize {
        self.channel.len() + self.text.len() + size_of::<Self>()
    }
}

/// What takes effect when the transaction commits.
#[derive(Clone, Debug)]
pub(crate) enum Staged {
    Message(Message),
    /// When a key expires from then on; `None`: never, or it has no value. Here to publish that in time.
    Expiry {
        stored_key: Vec<u8>,
        expires_at: Option<u64>,
        /// It had a value, which had not expired: that was deleted.
        was_deleted: bool,
    },
}

impl Staged {
    fn memory(&self) -> usize {
        match self {
            Self::Message(message) => message.memory(),
            Self::Expiry { stored_key, .. } => stored_key.len() + size_of::<Self>(),
        }
    }
}

/// Messages that wait. Nearly every connection has none.
#[derive(Debug, Default)]
pub(crate) struct Mail(Option<Box<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    /// Published in the transaction that is open: sent when it commits.
    staged: Vec<Staged>,
    /// Bytes that these take.
    memory: usize,
    /// What the command that is executed has done to keys, if events of keys are published.
    changes: Vec<Change>,
    /// How many of these are of attempts before the one that is made now, which does the same again, and up to
    /// which of them it has come.
    earlier: usize,
    repeated: usize,
    /// They were rolled back: only what was read in vain is left, for a command that fails.
    were_rolled_back: bool,
    /// Received by the connection that is being served, in its protocol: sent before the reply.
    own: Vec<u8>,
    /// The same, but sent behind the reply.
    behind: Vec<u8>,
}

impl Waiting {
    fn add_change(&mut self, change: Change) {
        let earlier = self.changes.get(self.repeated..self.earlier);
        match earlier.and_then(|all| all.iter().position(|before| is_same(before, &change))) {
            Some(at) => self.repeated += at + 1,
            None => self.changes.push(change),
        }
    }
}

/// Have both done the same to the same key? What was new the first time is not new the second time.
fn is_same(a: &Change, b: &Change) -> bool {
    use Change::{Deleted, Set};
    match (a, b) {
        (Set { key: a, .. }, Set { key: b, .. }) | (Deleted { key: a }, Deleted { key: b }) => {
            a == b
        }
        (a, b) => a == b,
    }
}

impl Mail {
    fn waiting(&mut self) -> &mut Waiting {
        self.0.get_or_insert_default()
    }

    /// Keeps one until the transaction commits.
    pub(crate) fn stage(&mut self, staged: Staged) {
        let waiting = self.waiting();
        waiting.memory += staged.memory();
        waiting.staged.push(staged);
    }

    pub(crate) fn has_staged(&self) -> bool {
        self.0.as_ref().is_some_and(|all| !all.staged.is_empty())
    }

    /// The transaction has ended; what was published in it.
    pub(crate) fn take_staged(&mut self) -> Vec<Staged> {
        let Some(waiting) = &mut self.0 else {
            return Vec::new();
        };
        waiting.memory = 0;
        let staged = std::mem::take(&mut waiting.staged);
        self.shrink();
        staged
    }

    /// The command, which has failed, is executed again from its beginning, in the same transaction: what
    /// it does again is no change.
    pub(crate) fn repeat_changes(&mut self) {
        if let Some(waiting) = &mut self.0 {
            waiting.earlier = waiting.changes.len();
            waiting.repeated = 0;
        }
    }

    /// Adds to the changes of the command that is executed.
    pub(crate) fn note_changes(&mut self, changes: Vec<Change>) {
        for change in changes {
            let rolls_back = change == Change::RolledBack;
            if rolls_back && self.0.is_none() {
                continue;
            }
            let waiting = self.waiting();
            if rolls_back {
                let is_miss = |change: &Change| matches!(change, Change::Missed { .. });
                waiting.changes.retain(is_miss);
                waiting.earlier = 0;
            } else {
                if waiting.were_rolled_back {
                    waiting.changes.clear();
                }
                waiting.add_change(change);
            }
            waiting.were_rolled_back = rolls_back;
        }
        self.shrink();
    }

    /// The changes of the command, which has ended; those that were rolled back go to one that has failed.
    pub(crate) fn take_changes(&mut self, has_failed: bool) -> Vec<Change> {
        let Some(waiting) = &mut self.0 else {
            return Vec::new();
        };
        let mut changes = std::mem::take(&mut waiting.changes);
        waiting.earlier = 0;
        if std::mem::take(&mut waiting.were_rolled_back) && !has_failed {
            changes.clear();
        }
        self.shrink();
        changes
    }

    /// False: more than `most` bytes would wait, and it is not kept.
    pub(crate) fn receive(&mut self, bytes: &[u8], most: u64) -> bool {
        let fits = self.has_room(bytes, most);
        if fits {
            self.waiting().own.extend_from_slice(bytes);
        }
        fits
    }

    /// The same for what is sent behind the reply.
    pub(crate) fn receive_behind(&mut self, bytes: &[u8], most: u64) -> bool {
        let fits = self.has_room(bytes, most);
        if fits {
            self.waiting().behind.extend_from_slice(bytes);
        }
        fits
    }

    fn has_room(&self, bytes: &[u8], most: u64) -> bool {
        let waiting = (self.0.as_ref()).map_or(0, |all| all.own.len() + all.behind.len());
        (waiting + bytes.len()) as u64 <= most
    }

    /// What the connection has received itself as yet, of what is sent before the reply.
    pub(crate) fn take_received(&mut self) -> Vec<u8> {
        let own = self.0.as_mut().map(|all| std::mem::take(&mut all.own));
        self.shrink();
        own.unwrap_or_default()
    }

    /// What the connection has received itself: before the reply, and behind it.
    pub(crate) fn take_own(&mut self) -> [Vec<u8>; 2] {
        let Some(waiting) = &mut self.0 else {
            return [Vec::new(), Vec::new()];
        };
        let own = [&mut waiting.own, &mut waiting.behind].map(std::mem::take);
        self.shrink();
        own
    }

    fn shrink(&mut self) {
        let is_empty = |all: &Waiting| {
            all.staged.is_empty()
                && all.changes.is_empty()
                && all.own.is_empty()
                && all.behind.is_empty()
        };
        if self.0.as_deref().is_some_and(is_empty) {
            self.0 = None;
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.0.as_ref().map_or(0, |all| {
            let changes: usize = all.changes.iter().map(Change::memory).sum();
            all.memory + changes + all.own.len() + all.behind.len()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_charged_and_given_back() {
        let mut subscribed = Subscribed::default();
        subscribed.add(Kind::Channel, b"news");
        subscribed.add(Kind::Pattern, b"n*");
        subscribed.add(Kind::Shard, b"s");
        assert_eq!(subscribed.memory(), 7 + 3 * OVERHEAD);
        assert_eq!(subscribed.count_with(Kind::Pattern), 2);
        assert_eq!(subscribed.count_with(Kind::Shard), 1);
        subscribed.remove(Kind::Channel, b"news");
        subscribed.remove(Kind::Pattern, b"n*");
        assert!(subscribed.is_any());
        subscribed.remove(Kind::Shard, b"s");
        assert_eq!(subscribed, Subscribed::default());
    }

    #[test]
    fn changes_that_were_rolled_back_are_none() {
        let deleted = |key: &[u8]| Change::Deleted { key: key.to_vec() };
        let mut mail = Mail::default();
        mail.note_changes(vec![deleted(b"a"), Change::RolledBack, deleted(b"b")]);
        assert!(mail.memory() > 0 && !mail.has_staged());
        assert_eq!(mail.take_changes(false), [deleted(b"b")]);
        let missed = || Change::Missed { key: b"m".into() };
        for has_failed in [false, true] {
            mail.note_changes(vec![missed(), deleted(b"a"), Change::RolledBack]);
            let expected = Vec::from_iter(has_failed.then(missed));
            assert_eq!(mail.take_changes(has_failed), expected);
        }
        assert!(mail.0.is_none());
    }

    #[test]
    fn what_is_done_again_is_noted_once() {
        let set = |key: &[u8], is_new| Change::Set {
            key: key.to_vec(),
            expires_at: None,
            is_new,
        };
        let deleted = |key: &[u8]| Change::Deleted { key: key.to_vec() };
        let mut mail = Mail::default();
        // MSET a b a c, which finds no memory for the third and for the fourth.
        mail.note_changes(vec![set(b"a", true), set(b"b", true)]);
        mail.repeat_changes();
        mail.note_changes(vec![set(b"a", false), set(b"b", false), set(b"a", false)]);
        mail.repeat_changes();
        let again = [b"a", b"b", b"a"].map(|key| set(key, false));
        mail.note_changes([&again[..], &[set(b"c", true)]].concat());
        let expected = [(b"a", true), (b"b", true), (b"a", false), (b"c", true)];
        let expected = expected.map(|(key, is_new)| set(key, is_new));
        assert_eq!(mail.take_changes(false), expected);
        // DEL a b: what is gone already is not deleted again.
        mail.note_changes(vec![deleted(b"a")]);
        mail.repeat_changes();
        mail.note_changes(vec![deleted(b"b")]);
        assert_eq!(mail.take_changes(false), [deleted(b"a"), deleted(b"b")]);
        // Another command is no repetition.
        mail.note_changes(vec![deleted(b"a"), deleted(b"a")]);
        assert_eq!(mail.take_changes(false).len(), 2);
    }

    #[test]
    fn mail_that_was_taken_takes_nothing() {
        let mut mail = Mail::default();
        mail.stage(Staged::Message(Message {
            channel: b"news".to_vec(),
            text: vec![0; 100],
            is_of_shard: false,
        }));
        assert!(!mail.receive(b"reply", 4) && mail.receive(b"reply", 5));
        assert!(!mail.receive_behind(b"x", 5));
        assert!(mail.has_staged() && mail.memory() > 109);
        assert_eq!(mail.take_staged().len(), 1);
        assert_eq!(mail.memory(), 5);
        assert!(mail.receive_behind(b"line", 9));
        assert_eq!(mail.take_received(), b"reply");
        assert_eq!(mail.take_own(), [Vec::new(), b"line".to_vec()]);
        assert!(mail.0.is_none() && mail.take_staged().is_empty());
    }
}
