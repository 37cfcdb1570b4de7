//! Commands that wait for keys: BLPOP and its kin, XREAD BLOCK.
//!
//! A command says what it is, in one value: how it tries ([`Blocking::attempt`]), what it replies if it
//! must not wait, and for which keys and how long it waits ([`Wait`]). [`wait_for`] does the rest:
//!
//! ```text
//!   run() ─► wait_for ─► attempt ──true──► its reply
//!                           │ false
//!                           ▼
//!              may it wait? ──no: MULTI … EXEC, a script, BEGIN … COMMIT──► reply_nothing
//!                           │ yes
//!                           ▼
//!   a place with its keys, attempt ─► sleeps ──a key was written──► attempt(number of the key) …
//!                                       ├──timeout, CLIENT UNBLOCK──► a null array
//!                                       ├──CLIENT UNBLOCK … ERROR──► -UNBLOCKED
//!                                       └──the client is gone, CLIENT KILL──► nothing
//! ```
//!
//! Which client is tried when, and why no write is missed: `instance/waiting.rs`, `server/waiters.rs` and
//! `bpf/values/waiting.bpf.h`.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use bpfdb::{Status, ValueType};
use bpfdb_values::double;

use super::atomic;
use super::attempts;
use super::large;
use super::prelude::*;
use crate::instance::waiting::{Place, Unblocked, Woken};
use crate::protocol::reply::{self, Replies};

/// Of the commands that may wait: how they differ from Redis's.
pub(super) const DIFFERENCES: &str = "In BEGIN … COMMIT it does not wait, as in MULTI … EXEC: the reply is that to a time that is over.";

/// A command that waits for keys, as it is tried.
pub(crate) trait Blocking: Debug {
    /// Replies, if there is something to reply. It has done and replied nothing otherwise.
    ///
    /// `ready`: `None` at the first attempt, when all keys of [`Wait`] count, in their order. Afterwards
    /// the number of the one that alone is to be looked at, since it may have been written.
    ///
    /// A key of another type is an error at the first attempt; afterwards it is as if it were absent, and
    /// the client goes on waiting ([`unless_other_type`]).
    ///
    /// An attempt in vain must have locked each key that it has looked at, also an absent one, so that
    /// a writer that fills the key afterwards finds that a client waits: what only reads does so in a
    /// transaction that writes (`atomically` with `Kind::Write`), where reading locks.
    fn attempt(
        &mut self,
        context: &mut Context<'_>,
        arguments: &[Vec<u8>],
        ready: Option<usize>,
    ) -> Result<bool, Failure>;

    /// The reply where it must not wait and there is nothing.
    fn reply_nothing(&self, replies: &mut Replies) {
        replies.null_array();
    }
}

/// For what a command waits, and until when.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) keys: Vec<Vec<u8>>,
    /// `None`: for ever.
    pub(crate) until: Option<Instant>,
    /// It takes elements of values of this type, so that those behind it find nothing where it has found
    /// nothing; `None`: others may find what it does not.
    pub(crate) takes: Option<ValueType>,
}

/// Each key takes memory while a client waits for it, and time when it is tried.
const KEYS_MAX: usize = 1024;

/// Tries a command, and lets it wait if there is nothing.
pub(crate) fn wait_for(
    context: &mut Context<'_>,
    arguments: &[Vec<u8>],
    wait: Wait,
    mut command: impl Blocking + 'static,
) -> Outcome {
    if wait.keys.len() > KEYS_MAX {
        return Err(format!("ERR more than {KEYS_MAX} keys to wait for").into());
    }
    let may_wait = may_wait(context);
    // A client that comes when others are about to be served is behind them.
    let others = may_wait && wait.keys.iter().any(|key| is_contended(context, key));
    let mut has_seen_types = false;
    // The kernel would hand the next one over as well.
    if wait.keys.len() > 1 {
        context.set_needs_daemon(true);
    }
    if !others {
        match command.attempt(context, arguments, None) {
            Ok(true) => return Ok(()),
            Ok(false) => has_seen_types = true,
            Err(failure) if !may_wait || !passes(context, &failure) => return Err(failure),
            // The holder of the lock may be the one to fill the key.
            Err(_) => {}
        }
    }
    context.set_needs_daemon(true);
    if may_wait {
        context.go_on_with(BlockedCommand {
            command: Box::new(command),
            wait,
            place: None,
            has_seen_types,
        });
    } else {
        command.reply_nothing(context.replies);
    }
    Ok(())
}

/// Nothing could be written while it waits, where others wait for the end of its transaction.
fn may_wait(context: &Context<'_>) -> bool {
    !context.is_of_block && !context.is_of_script && !atomic::is_open(context.session)
}

fn is_contended(context: &Context<'_>, key: &[u8]) -> bool {
    let stored = context.session.database().stored(key);
    context.instance.waiting.is_contended(&stored)
}

/// Is it over soon, so that another attempt makes sense?
fn passes(context: &Context<'_>, failure: &Failure) -> bool {
    let Failure::Engine(status) = failure else {
        return false;
    };
    let is_of_others = matches!(
        status,
        Status::Conflict | Status::VersionsFull | Status::SessionBusy
    );
    (is_of_others || attempts::passes(*status)) && context.refusal(*status).is_none()
}

/// A command that waits.
#[derive(Debug)]
struct BlockedCommand {
    command: Box<dyn Blocking>,
    wait: Wait,
    /// It waits since it has one.
    place: Option<Place>,
    /// An attempt has looked at all keys: one of another type would have been its error.
    has_seen_types: bool,
}

impl BlockedCommand {
    /// From here on a writer that fills one of the keys finds that a client waits.
    fn take_place(&self, context: &mut Context<'_>) -> Result<Place, Failure> {
        let mut keys = Vec::with_capacity(self.wait.keys.len());
        for key in &self.wait.keys {
            let stored = context.session.database().stored(key).into_owned();
            keys.push((stored, context.session.key_hash(key)?));
        }
        let index = context.session.index();
        let (takes, is_timed) = (self.wait.takes, self.wait.until.is_some());
        Ok(context.instance.waiting.wait(index, keys, takes, is_timed))
    }

    fn attempt(
        &mut self,
        context: &mut Context<'_>,
        arguments: &[Vec<u8>],
        number: usize,
    ) -> Result<bool, Failure> {
        let start = context.replies.len();
        match self.command.attempt(context, arguments, Some(number)) {
            Err(failure) if passes(context, &failure) => {
                context.replies.truncate(start);
                if matches!(failure, Failure::Engine(Status::MemoryPending)) {
                    context.engine.ask_for_memory();
                    context.instance.evictor.ask(false);
                    let _ = large::ask();
                }
                context.instance.waiting.try_again(context.session.index());
                Ok(false)
            }
            outcome => outcome,
        }
    }

    /// A key of another type is the error of a command that has just come.
    fn see_type(&self, context: &mut Context<'_>, number: usize) -> Outcome {
        let Some(takes) = self.wait.takes.filter(|_| !self.has_seen_types) else {
            return Ok(());
        };
        match context.session.head(&self.wait.keys[number]) {
            Ok(Some(head)) if head.value_type != takes => {
                Err(Failure::Text(reply::wrong_type().to_vec()))
            }
            _ => Ok(()),
        }
    }

    /// Goes on waiting, or not.
    fn rest(&self, context: &mut Context<'_>) -> Progress {
        if self.wait.until.is_some_and(|until| until <= Instant::now()) {
            context.replies.null_array();
            return Progress::Done;
        }
        context.rests_until = self.wait.until;
        Progress::More
    }
}

impl Job for BlockedCommand {
    fn step(
        &mut self,
        context: &mut Context<'_>,
        arguments: &[Vec<u8>],
    ) -> Result<Progress, Failure> {
        let (numbers, is_first) = match &self.place {
            None => {
                self.place = Some(self.take_place(context)?);
                (0..self.wait.keys.len(), true)
            }
            Some(_) => match context.instance.waiting.take_woken(context.session.index()) {
                Woken::No => return Ok(self.rest(context)),
                Woken::Key(number) => (number..number + 1, false),
                Woken::End(Unblocked::TimedOut) => {
                    context.replies.null_array();
                    return Ok(Progress::Done);
                }
                Woken::End(Unblocked::Error) => {
                    return Err("UNBLOCKED client unblocked via CLIENT UNBLOCK".into());
                }
            },
        };
        for number in numbers {
            // It is served in a moment, after the clients that wait for it already.
            if is_first && is_contended(context, &self.wait.keys[number]) {
                continue;
            }
            if is_first {
                self.see_type(context, number)?;
            }
            if self.attempt(context, arguments, number)? {
                return Ok(Progress::Done);
            }
        }
        Ok(self.rest(context))
    }

    /// Taking a place is.
    fn is_short(&self) -> bool {
        true
    }

    fn is_blocked(&self) -> bool {
        self.place.is_some()
    }

    fn memory(&self) -> usize {
        self.wait.keys.iter().map(Vec::capacity).sum()
    }
}

/// What an attempt has found of a key that was written: nothing, if it has a value of another type.
pub(super) fn unless_other_type<T>(
    found: Result<Option<T>, Failure>,
) -> Result<Option<T>, Failure> {
    match found {
        Err(Failure::Text(text)) if text == reply::wrong_type() => Ok(None),
        found => found,
    }
}

/// When a time ends that is so many seconds from now; `None`: never.
pub(super) fn seconds_from_now(text: &[u8]) -> Result<Option<Instant>, Failure> {
    let seconds = double::parse(text).ok_or("ERR timeout is not a float or out of range")?;
    let milliseconds = (seconds * 1000.0).ceil();
    // What does not fit is negative for Redis.
    if milliseconds < 0.0 || milliseconds >= i64::MAX as f64 {
        return Err("ERR timeout is negative".into());
    }
    Ok(from_now(milliseconds as u64))
}

/// When so many milliseconds are over; `None` for 0: never.
pub(super) fn from_now(milliseconds: u64) -> Option<Instant> {
    let time = (milliseconds > 0).then(|| Duration::from_millis(milliseconds))?;
    // What is beyond the clock is never.
    Instant::now().checked_add(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_redis_reads_them() {
        for text in ["0", "-0.0", "9e15", "0.00"] {
            assert!(seconds_from_now(text.as_bytes()).is_ok(), "{text}");
        }
        assert!(matches!(seconds_from_now(b"0"), Ok(None)));
        assert!(matches!(seconds_from_now(b"0.0001"), Ok(Some(_))));
        assert!(from_now(0).is_none() && from_now(1).is_some());
        for (text, expected) in [
            ("-1", "ERR timeout is negative"),
            ("inf", "ERR timeout is negative"),
            ("1e18", "ERR timeout is negative"),
            ("x", "ERR timeout is not a float or out of range"),
            ("nan", "ERR timeout is not a float or out of range"),
            ("", "ERR timeout is not a float or out of range"),
        ] {
            let Err(Failure::Text(found)) = seconds_from_now(text.as_bytes()) else {
                panic!("{text}");
            };
            assert_eq!(found, expected.as_bytes(), "{text}");
        }
    }
}
