//! RESTORE.

use std::time::Duration;

use bpfdb::{Access, Change, Tracking};

use super::super::arguments::{is, number, syntax_error};
use super::super::atomic::{Kind, atomically};
use super::super::collection::put;
use super::super::prelude::*;
use crate::settings::EventClass;
use crate::values::dump::{self, Damage};

pub(crate) static COMMAND: Command = Command {
    name: "restore",
    summary: "Makes a value from what DUMP wrote",
    since: "2.6.0",
    group: Group::Generic,
    complexity: "O(length of the payload)",
    arity: -4,
    arguments: "key:key, ttl:integer, serialized-value, [REPLACE@3.0.0], [ABSTTL@5.0.0], [IDLETIME seconds:integer@5.0.0], [FREQ frequency:integer@5.0.0]",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::Keyspace, Category::Dangerous],
    keys: &[Keys::at(1, &[KeyFlag::Overwrite, KeyFlag::Update])],
    differences: "Values of modules are refused. IDLETIME and FREQ have no effect with noeviction.",
    batching: Batching::Reads,
    events: Events::By(tell),
    run,
    ..Command::BASE
};

#[derive(Debug, Default)]
struct Options {
    replace: bool,
    absolute: bool,
    access: Option<Access>,
}

impl Options {
    fn parse(mut words: &[Vec<u8>]) -> Result<Self, Failure> {
        let mut options = Self::default();
        while let Some((word, behind)) = words.split_first() {
            words = match behind {
                behind if is(word, "replace") => {
                    options.replace = true;
                    behind
                }
                behind if is(word, "absttl") => {
                    options.absolute = true;
                    behind
                }
                [seconds, behind @ ..] if is(word, "idletime") && !options.has_frequency() => {
                    let seconds = u64::try_from(number(seconds)?)
                        .map_err(|_| "ERR Invalid IDLETIME value, must be >= 0")?;
                    options.access = Some(Access::Idle(Duration::from_secs(seconds)));
                    behind
                }
                [value, behind @ ..] if is(word, "freq") && !options.has_idle_time() => {
                    let frequency = u8::try_from(number(value)?)
                        .map_err(|_| "ERR Invalid FREQ value, must be >= 0 and <= 255")?;
                    options.access = Some(Access::Frequency(frequency));
                    behind
                }
                _ => return Err(syntax_error()),
            };
        }
        Ok(options)
    }

    fn has_frequency(&self) -> bool {
        matches!(self.access, Some(Access::Frequency(_)))
    }

    fn has_idle_time(&self) -> bool {
        matches!(self.access, Some(Access::Idle(_)))
    }
}

pub(super) fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, payload) = (&arguments[0], &arguments[2]);
    let options = Options::parse(&arguments[3..])?;
    let now = context.engine.now_ms();
    // Once, and while nothing is locked; as in Redis, other errors are replied first.
    let decoded = dump::decode(payload).map_err(failure);
    atomically(context.session, Kind::Write, |session| {
        let old = session.head_for_update(key)?;
        if !options.replace && old.is_some() {
            return Err("BUSYKEY Target key name already exists.".into());
        }
        let ttl = u64::try_from(number(&arguments[1])?)
            .map_err(|_| "ERR Invalid TTL value, must be >= 0")?;
        let (kind, value) = decoded.as_ref().map_err(Clone::clone)?;
        let start = if options.absolute { 0 } else { now };
        let expires_at = (ttl > 0).then(|| deadline(ttl, start));
        if expires_at.is_some_and(|time| time <= now) {
            session.delete(key)?;
            return Ok(());
        }
        put(session, key, *kind, Some(value), expires_at)
    })?;
    let is_noted = match options.access {
        Some(Access::Idle(_)) => context.instance.evictor.rules().tracking() == Tracking::Lru,
        Some(Access::Frequency(_)) => context.instance.evictor.rules().is_lfu(),
        _ => false,
    };
    if let Some(access) = options.access.filter(|_| is_noted) {
        // The value is committed, and the access only a hint: an Error here fails no command.
        let _ = context.session.set_access(key, access);
    }
    context.replies.ok();
    Ok(())
}

/// As in Redis, what does not fit a signed number is long over.
fn deadline(ttl: u64, start: u64) -> u64 {
    let deadline = ttl.wrapping_add(start);
    if i64::try_from(deadline).is_ok() {
        deadline
    } else {
        1
    }
}

fn failure(damage: Damage) -> Failure {
    match damage {
        Damage::Envelope => "ERR DUMP payload version or checksum are wrong".into(),
        Damage::Content => "ERR Bad data format".into(),
        Damage::TooLong => Failure::TooLong,
    }
}

pub(super) fn tell(told: &mut Told<'_>) {
    for change in told.changes {
        match change {
            // What was there is deleted before, so the key is new.
            Change::Set { key, .. } => {
                told.tell_of(EventClass::New, "new", key);
                told.tell("restore", key);
            }
            other => told.tell_stored(other, "restore"),
        }
    }
}
