//! The events of keys (`notify-keyspace-events`) that follow from what a command has done. Which these are
//! stands in the command's definition.

use bpfdb::{Change, Database};

use crate::settings::EventClass;

/// The events of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Events {
    /// Of each key that it sets, one of the command's own name.
    OwnName,
    /// Of each key that it sets, one of this name. If the command deletes the key, which has no element any more, the
    /// event `del` follows.
    Named(&'static str),
    /// The same, but of a key that is deleted there is only `del`: it gets no value, or no other one.
    Stored(&'static str),
    /// What the command has noted by `Session::note_event`, and `del`.
    Noted,
    None,
    /// What this says.
    By(fn(&mut Told<'_>)),
}

/// Which keys that were read in vain have the event `keymiss`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Misses {
    /// Those that the command only reads.
    OfReadKeys,
    All,
    None,
    /// All, if the arguments say so.
    If(fn(&[Vec<u8>]) -> bool),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) class: EventClass,
    pub(crate) name: &'static str,
    pub(crate) stored_key: Vec<u8>,
}

/// A command that was executed, and the events that it has published as yet.
pub(crate) struct Told<'a> {
    pub(crate) arguments: &'a [Vec<u8>],
    /// In their order.
    pub(crate) changes: &'a [Change],
    class: EventClass,
    database: Database,
    events: Vec<Event>,
}

impl<'a> Told<'a> {
    pub(super) fn new(
        class: EventClass,
        database: Database,
        arguments: &'a [Vec<u8>],
        changes: &'a [Change],
    ) -> Self {
        Self {
            arguments,
            changes,
            class,
            database,
            events: Vec::new(),
        }
    }

    pub(super) fn into_events(self) -> Vec<Event> {
        self.events
    }

    pub(crate) fn tell_of(&mut self, class: EventClass, name: &'static str, stored_key: &[u8]) {
        self.events.push(Event {
            class,
            name,
            stored_key: stored_key.to_vec(),
        });
    }

    /// An event of the class that the command's group has.
    pub(crate) fn tell(&mut self, name: &'static str, stored_key: &[u8]) {
        self.tell_of(self.class, name, stored_key);
    }

    pub(crate) fn tell_generic(&mut self, name: &'static str, stored_key: &[u8]) {
        self.tell_of(EventClass::Generic, name, stored_key);
    }

    /// The stored key of an argument.
    pub(crate) fn stored(&self, argument: usize) -> Vec<u8> {
        let key = self.arguments.get(argument).map_or(&b""[..], |key| key);
        self.database.stored(key).into_owned()
    }

    /// One change, which has this event.
    pub(crate) fn tell_change(&mut self, change: &Change, name: &'static str) {
        match change {
            Change::Set { key, is_new, .. } => {
                if *is_new {
                    self.tell_of(EventClass::New, "new", key);
                }
                self.tell(name, key);
            }
            Change::Deleted { key } => {
                self.tell(name, key);
                self.tell_generic("del", key);
            }
            other => self.tell_other(other),
        }
    }

    /// One change, of which only `del` is published if it deletes.
    pub(crate) fn tell_stored(&mut self, change: &Change, name: &'static str) {
        match change {
            Change::Deleted { key } => self.tell_generic("del", key),
            other => self.tell_change(other, name),
        }
    }

    /// What has a name of its own, or is a key that was read in vain.
    pub(crate) fn tell_other(&mut self, change: &Change) {
        match change {
            Change::Event { key, name } => self.tell(name, key),
            Change::Missed { key } => self.tell_of(EventClass::Miss, "keymiss", key),
            Change::Set { .. } | Change::Deleted { .. } | Change::RolledBack => {}
        }
    }

    /// What was noted comes before `del`.
    pub(super) fn tell_noted(&mut self) {
        let changes = self.changes;
        changes.iter().for_each(|change| self.tell_other(change));
        for change in changes {
            if let Change::Deleted { key } = change {
                self.tell_generic("del", key);
            }
        }
    }
}
