//! Events of keys: `notify-keyspace-events`.
//!
//! ```text
//!  Session ── changes ──► Mail ──► command has ended ──► Told: its definition's events ──► staged, or sent
//!             rolled back: dropped                          (event.rs)                        │
//!                                                                           commit ──► sent ◄─┘
//! ```
//!
//! Invariants
//!  1. While the setting is not empty the daemon executes every request, by itself and not in batches or in compiled
//!     procedures: so every change of a client's passes here.
//!  2. Events take the way of messages (`publish/`): those of a transaction are sent when it commits, in the order in
//!     which they have happened, and never if it is rolled back.
//!  3. A time to expire is known to [`Expiring`] from its commit on. What has expired is published before the next
//!     request is executed, so that its event comes before those of the request.
//!
//! [`Expiring`]: crate::instance::expiring::Expiring

use std::rc::Rc;

use bpfdb::{Change, Database, Engine};

use super::atomic;
use super::cold;
use super::context::{Context, Failure, Outcome};
use super::definition::{Command, KeyFlag};
use super::event::{Event, Events, Misses, Told};
use super::job::{Job, Progress};
use super::publish;
use crate::connection::subscribed::{Message, Staged};
use crate::connection::table::ConnectionTable;
use crate::eviction::GoneKey;
use crate::instance::Instance;
use crate::settings::EventClass;

/// After a command was run: takes in what it has done to keys, and publishes the events if it has ended.
pub(crate) fn note(
    context: &mut Context<'_>,
    command: &Command,
    arguments: &[Vec<u8>],
    outcome: &Outcome,
) {
    let step = match outcome {
        Ok(()) if context.job.is_some() => Step::MoreFollow,
        Ok(()) => Step::Done,
        Err(failure) => Step::Failed(failure),
    };
    note_outcome(context, command, arguments, step, true);
}

/// The same after a step of its job.
pub(crate) fn note_step(
    context: &mut Context<'_>,
    command: &Command,
    arguments: &[Vec<u8>],
    outcome: &Result<Progress, Failure>,
    job: &dyn Job,
) {
    let keeps_steps = job.keeps_steps();
    let step = match outcome {
        Ok(Progress::More) | Err(_) if keeps_steps => Step::Done,
        Ok(Progress::More) => Step::MoreFollow,
        Ok(Progress::Done) => Step::Done,
        Err(failure) => Step::Failed(failure),
    };
    note_outcome(context, command, arguments, step, !job.has_begun());
}

/// What has become of a command.
#[derive(Clone, Copy)]
enum Step<'a> {
    MoreFollow,
    /// What it has done stays.
    Done,
    Failed(&'a Failure),
}

/// `begins_anew`: after an Error it is executed from its beginning, if it is tried again.
fn note_outcome(
    context: &mut Context<'_>,
    command: &Command,
    arguments: &[Vec<u8>],
    step: Step<'_>,
    begins_anew: bool,
) {
    if !context.instance.settings.keyspace_events.is_any() {
        return;
    }
    let changes = context.session.take_changes();
    context.connection.mail.note_changes(changes);
    let changes = match step {
        Step::MoreFollow => return,
        // It may be tried again in the transaction, in which what it has done stays.
        Step::Failed(Failure::Engine(_)) if atomic::is_open(context.session) => {
            if begins_anew {
                context.connection.mail.repeat_changes();
            }
            return;
        }
        Step::Done => context.connection.mail.take_changes(false),
        // It will miss the same once more.
        Step::Failed(failure) if begins_anew && cold::waits(context, failure) => {
            context.connection.mail.take_changes(true);
            return;
        }
        Step::Failed(_) => {
            // It has changed nothing.
            let mut changes = context.connection.mail.take_changes(true);
            changes.retain(|change| matches!(change, Change::Missed { .. }));
            changes
        }
    };
    if !changes.is_empty() {
        tell(context, command, arguments, &changes);
    }
}

fn tell(context: &mut Context<'_>, command: &Command, arguments: &[Vec<u8>], changes: &[Change]) {
    let database = context.session.database();
    let changes: Vec<Change> = changes
        .iter()
        .filter(|change| is_told(command, database, arguments, change))
        .cloned()
        .collect();
    stage_times(context, &changes);
    let mut told = Told::new(command.group.event_class(), database, arguments, &changes);
    match command.events {
        Events::OwnName => changes
            .iter()
            .for_each(|change| told.tell_change(change, command.name)),
        Events::Named(name) => changes
            .iter()
            .for_each(|change| told.tell_change(change, name)),
        Events::Stored(name) => changes
            .iter()
            .for_each(|change| told.tell_stored(change, name)),
        Events::Noted => told.tell_noted(),
        Events::None => changes
            .iter()
            .filter(|change| matches!(change, Change::Missed { .. }))
            .for_each(|change| told.tell_other(change)),
        Events::By(tell) => tell(&mut told),
    }
    for event in told.into_events() {
        for message in messages(context.instance, &event) {
            stage(context, Staged::Message(message));
        }
    }
}

/// When keys expire by these changes.
fn stage_times(context: &mut Context<'_>, changes: &[Change]) {
    let setting = context.instance.settings.keyspace_events;
    if !setting.publishes(EventClass::Expired) {
        return;
    }
    for change in changes {
        let (key, expires_at, was_deleted) = match change {
            Change::Set {
                key, expires_at, ..
            } => (key, *expires_at, false),
            Change::Deleted { key } => (key, None, true),
            _ => continue,
        };
        let expiry = Staged::Expiry {
            stored_key: key.clone(),
            expires_at,
            was_deleted,
        };
        stage(context, expiry);
    }
}

/// Is it a change of a client's key? Of those that were read in vain, is it one that the command publishes?
fn is_told(command: &Command, database: Database, arguments: &[Vec<u8>], change: &Change) -> bool {
    let key = match change {
        Change::Set { key, .. } | Change::Deleted { key } | Change::Event { key, .. } => {
            return Database::split(key).is_some();
        }
        Change::Missed { key } => key,
        Change::RolledBack => return false,
    };
    let Some((of, key)) = Database::split(key) else {
        return false;
    };
    match command.misses {
        Misses::All => true,
        Misses::None => false,
        Misses::If(says) => says(arguments),
        Misses::OfReadKeys => {
            of == database && !command.keys.is_empty() && is_only_read(command, arguments, key)
        }
    }
}

/// Does the command not write to the key, or read it under another of its places too?
fn is_only_read(command: &Command, arguments: &[Vec<u8>], key: &[u8]) -> bool {
    // Positions count the words of the name.
    let name_words = command.name.split('|').count();
    let words: Vec<Vec<u8>> = std::iter::repeat_n(Vec::new(), name_words)
        .chain(arguments.iter().cloned())
        .collect();
    let mut is_written = false;
    for keys in command.keys {
        if keys
            .positions(&words)
            .any(|position| words[position] == key)
        {
            if keys.flags_of(&words).contains(&KeyFlag::ReadOnly) {
                return true;
            }
            is_written = true;
        }
    }
    !is_written
}

/// Takes effect now, or when the open transaction commits.
fn stage(context: &mut Context<'_>, staged: Staged) {
    if !atomic::is_open(context.session) {
        apply(context, staged);
    } else if !atomic::has_failed(context.session) {
        context.connection.mail.stage(staged);
    }
}

/// The transaction has committed: what was staged in it takes effect.
pub(crate) fn apply_staged(context: &mut Context<'_>) {
    for staged in context.connection.mail.take_staged() {
        apply(context, staged);
    }
}

fn apply(context: &mut Context<'_>, staged: Staged) {
    match staged {
        Staged::Message(message) => publish::send(context, &message),
        Staged::Expiry {
            stored_key,
            expires_at,
            was_deleted,
        } => {
            let may_be_over = set_expiry(context, &stored_key, expires_at);
            if may_be_over && !was_deleted {
                send_expired(context, &stored_key);
            }
        }
    }
}

/// Was the value that a key has now written after the time of the one before it? Then that has expired since the request
/// began.
fn set_expiry(context: &mut Context<'_>, stored_key: &[u8], expires_at: Option<u64>) -> bool {
    let setting = context.instance.settings.keyspace_events;
    if !setting.publishes(EventClass::Expired) {
        return false;
    }
    let before = context.instance.expiring.set(stored_key, expires_at);
    before != expires_at && before.is_some_and(|before| before <= context.engine.now_ms())
}

/// Of a key that was evicted.
fn evicted(key: GoneKey) -> Event {
    Event {
        class: EventClass::Evicted,
        name: "evicted",
        stored_key: key.stored_key,
    }
}

/// Of a key whose time is over.
fn expired(stored_key: &[u8]) -> Event {
    Event {
        class: EventClass::Expired,
        name: "expired",
        stored_key: stored_key.to_vec(),
    }
}

fn send_expired(context: &mut Context<'_>, stored_key: &[u8]) {
    send(context, &expired(stored_key));
}

fn send(context: &mut Context<'_>, event: &Event) {
    for message in messages(context.instance, event) {
        publish::send(context, &message);
    }
}

/// Publishes which keys were evicted and have expired, before a request is executed.
pub(crate) fn publish_expired(context: &mut Context<'_>) {
    for key in take_evicted(context.instance) {
        send(context, &evicted(key));
    }
    while let Some(key) = take_expired(context.engine, context.instance) {
        send_expired(context, &key);
    }
}

/// The same while no client is being served.
pub(crate) fn publish_expired_for_nobody(
    engine: &Engine,
    instance: &mut Instance,
    connections: &mut ConnectionTable,
) {
    for key in take_evicted(instance) {
        publish_for_nobody(engine, instance, connections, &evicted(key));
    }
    while let Some(key) = take_expired(engine, instance) {
        publish_for_nobody(engine, instance, connections, &expired(&key));
    }
}

/// Publishes what the server itself has done to a key, while no client is being served.
fn publish_for_nobody(
    engine: &Engine,
    instance: &Instance,
    connections: &mut ConnectionTable,
    event: &Event,
) {
    for message in messages(instance, event) {
        publish::send_for_nobody(engine, instance, connections, &message);
    }
}

/// The keys that were evicted since the last call; they expire no more.
fn take_evicted(instance: &mut Instance) -> Vec<GoneKey> {
    let Some(gone) = instance.evictor.take_gone() else {
        return Vec::new();
    };
    for key in &gone.keys {
        instance.expiring.forget(&key.stored_key, key.expires_at);
    }
    let setting = instance.settings.keyspace_events;
    if gone.has_more && setting.publishes(EventClass::Expired) {
        // Which others have gone is not known: what is there is looked at anew.
        instance.expiring.begin();
    }
    gone.keys
}

fn take_expired(engine: &Engine, instance: &mut Instance) -> Option<Rc<[u8]>> {
    instance.expiring.due()?;
    instance.expiring.take_due(engine.now_ms())
}

/// What is published of an event: to the channel of the key, and to that of the event.
fn messages(instance: &Instance, event: &Event) -> Vec<Message> {
    let setting = instance.settings.keyspace_events;
    let Some((database, key)) = Database::split(&event.stored_key) else {
        return Vec::new();
    };
    let Some(number) = instance.databases.number_of(database) else {
        return Vec::new();
    };
    let mut messages = Vec::new();
    if !setting.publishes(event.class) {
        return messages;
    }
    let message = |kind: &str, of: &[u8], text: &[u8]| Message {
        channel: [format!("__{kind}@{number}__:").as_bytes(), of].concat(),
        text: text.to_vec(),
        is_of_shard: false,
    };
    let name = event.name.as_bytes();
    if setting.on_keyspace() {
        messages.push(message("keyspace", key, name));
    }
    if setting.on_keyevent() {
        messages.push(message("keyevent", name, key));
    }
    messages
}
