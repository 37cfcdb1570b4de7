//! What the n-th step of a client writes, and what its keys hold after it. Both follow from the
//! number alone: so what is found shows which steps are there.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

/// In so many steps each kind of write has its turn.
pub const PERIOD: u64 = 8;
const SLOTS: u64 = 5;
/// Later than any test, in milliseconds of UNIX time; the step is added to it.
const FAR: u64 = 4_000_000_000_000;
/// Gone before the next server is there.
const SOON_MS: &str = "10";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Some keys that are set and deleted in turn.
    Slot(u64),
    /// How many steps have incremented it.
    Count,
    /// The last step that wrote several keys.
    Mark,
    /// A value of more than 32 KiB, or of more than a slot has.
    Large(u64),
    /// It expires, but not in this test.
    Far,
    /// It has expired at the next look.
    Soon,
    /// No key, but the step that gave `Far` its time.
    Until,
}

impl Key {
    /// Those that a client may have.
    pub const ALL: [Self; 11] = [
        Self::Slot(0),
        Self::Slot(1),
        Self::Slot(2),
        Self::Slot(3),
        Self::Slot(4),
        Self::Count,
        Self::Mark,
        Self::Large(0),
        Self::Large(1),
        Self::Far,
        Self::Soon,
    ];

    pub fn of(self, client: &impl Display) -> String {
        format!("{client}:{self}")
    }
}

impl Display for Key {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(number) => write!(text, "slot{number}"),
            Self::Count => text.write_str("count"),
            Self::Mark => text.write_str("mark"),
            Self::Large(number) => write!(text, "large{number}"),
            Self::Far => text.write_str("far"),
            Self::Soon => text.write_str("soon"),
            Self::Until => text.write_str("until"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    Set(Key),
    Delete(Key),
    Increment(Key),
    /// Gives it another time to expire; nothing if it is not there.
    Expire(Key),
    /// From the first to the second; nothing if the first is not there.
    Rename(Key, Key),
}

/// How many keys a step writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    One,
    Several,
    /// Several, none of which it has to read.
    Blind,
}

/// What the step writes, as a whole or not at all.
pub fn writes(step: u64, width: Width, large: bool) -> Vec<Write> {
    let turn = step / PERIOD;
    match width {
        Width::One => vec![match step % PERIOD {
            0 => Write::Set(Key::Slot(turn % SLOTS)),
            1 => Write::Increment(Key::Count),
            2 => Write::Delete(Key::Slot((turn + 2) % SLOTS)),
            3 if large => Write::Set(Key::Large(turn % 2)),
            3 => Write::Set(Key::Slot((turn + 1) % SLOTS)),
            4 => Write::Set(Key::Far),
            5 => Write::Set(Key::Soon),
            6 => Write::Rename(Key::Slot(turn % SLOTS), Key::Slot((turn + 3) % SLOTS)),
            _ => Write::Expire(Key::Far),
        }],
        Width::Several | Width::Blind => {
            let mut writes = vec![
                Write::Set(Key::Mark),
                Write::Set(Key::Slot(step % SLOTS)),
                Write::Increment(Key::Count),
                Write::Delete(Key::Slot((step + 2) % SLOTS)),
                Write::Set(Key::Far),
            ];
            if width == Width::Blind {
                writes.retain(|write| !matches!(write, Write::Increment(_)));
            }
            if large {
                writes.push(Write::Set(Key::Large(step % 2)));
            }
            writes
        }
    }
}

impl Write {
    pub fn key(self) -> Key {
        let (Self::Set(key)
        | Self::Delete(key)
        | Self::Increment(key)
        | Self::Expire(key)
        | Self::Rename(key, _)) = self;
        key
    }

    /// As a client of the server says it.
    pub fn command(self, client: &impl Display, step: u64) -> Vec<String> {
        let (verb, key) = match self {
            Self::Set(key) => ("SET", key),
            Self::Delete(key) => ("DEL", key),
            Self::Increment(key) => ("INCR", key),
            Self::Expire(key) => ("PEXPIREAT", key),
            Self::Rename(key, _) => ("RENAME", key),
        };
        let mut words = vec![verb.to_owned(), key.of(client)];
        match self {
            Self::Set(key) => {
                words.push(value(key, step));
                match key {
                    Key::Far => words.extend(["PXAT".to_owned(), (FAR + step).to_string()]),
                    Key::Soon => words.extend(["PX".to_owned(), SOON_MS.to_owned()]),
                    _ => (),
                }
            }
            Self::Expire(_) => words.push((FAR + step).to_string()),
            Self::Rename(_, to) => words.push(to.of(client)),
            Self::Delete(_) | Self::Increment(_) => (),
        }
        words
    }

    /// The same as a transaction of several writes may say it: in some steps a value comes from
    /// another key, and a time by a command of its own.
    pub fn commands(self, client: &impl Display, step: u64) -> Vec<Vec<String>> {
        let mut whole = self.command(client, step);
        match self {
            Self::Set(key @ Key::Slot(_)) if step % 3 == 1 => {
                let from = temporary(client);
                let set = vec!["SET".to_owned(), from.clone(), value(key, step)];
                let rename = vec!["RENAME".to_owned(), from, key.of(client)];
                vec![set, rename]
            }
            Self::Set(Key::Far) if step % 2 == 1 => {
                whole.truncate(3);
                vec![whole, Self::Expire(Key::Far).command(client, step)]
            }
            _ => vec![whole],
        }
    }
}

/// A key that is there within a transaction only.
pub fn temporary(client: &impl Display) -> String {
    format!("{client}:new")
}

/// The step that gave a key its time, from what PEXPIRETIME says.
pub fn step_of_expiry(told: &str) -> Option<u64> {
    told.strip_prefix(':')?
        .parse::<u64>()
        .ok()?
        .checked_sub(FAR)
}

/// When a value expires that is there still at the next look.
pub fn expiry(key: Key, step: u64) -> Option<u64> {
    (key == Key::Far).then_some(FAR + step)
}

/// Tells at every place of which step it is.
pub fn value(key: Key, step: u64) -> String {
    match key {
        Key::Large(number) => {
            let len = [40_000, 150_000][number as usize] + (step % 7) as usize * 1000;
            let mut text = format!("{step}:").repeat(len / 2);
            text.truncate(len);
            text
        }
        _ => step.to_string(),
    }
}

/// What a client's keys hold: the step that wrote each, or a count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State(pub BTreeMap<Key, u64>);

impl State {
    /// After the next step.
    pub fn apply(&mut self, step: u64, writes: &[Write]) {
        for &write in writes {
            match write {
                Write::Set(Key::Soon) => (),
                Write::Set(key) => {
                    self.0.insert(key, step);
                    if key == Key::Far {
                        self.0.insert(Key::Until, step);
                    }
                }
                Write::Delete(key) => drop(self.0.remove(&key)),
                Write::Expire(_) => {
                    self.0.entry(Key::Until).and_modify(|until| *until = step);
                }
                Write::Rename(from, to) => {
                    if let Some(written) = self.0.remove(&from) {
                        self.0.insert(to, written);
                    }
                }
                Write::Increment(key) => *self.0.entry(key).or_default() += 1,
            }
        }
    }

    /// The last step that it shows.
    pub fn newest(&self) -> u64 {
        let steps = self.0.iter().filter(|(key, _)| **key != Key::Count);
        steps.map(|(_, step)| *step).max().unwrap_or(0)
    }
}
