//! The lines of a copy.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bpfdb::Database;
use bpfdb_values::limits::Kind;
use serde::{Deserialize, Serialize};

use super::collection::{
    self, Elements, Entries, Members, Pairs, Score, Text, encode, kind_named, name_of,
};
use crate::collection::score_of;

/// The first line.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    #[serde(rename = "bpfdb-dump")]
    pub(super) version: u32,
    pub(super) time: u64,
    pub(super) timestamp: u64,
    pub(super) keys: u64,
    pub(super) expiring: u64,
}

/// What lines of entries have: each some of these fields.
#[derive(Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Fields<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    db: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key64: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value64: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<Pairs<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash64: Option<Pairs<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    list: Option<Elements<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    list64: Option<Elements<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<Elements<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    set64: Option<Elements<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zset: Option<Members<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zset64: Option<Members<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<Elements<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream64: Option<Elements<'a>>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lengths: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<Score>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part64: Option<Text<'a>>,
}

/// As text if it is one, else in base64.
fn text_or_base64(bytes: &[u8]) -> (Option<Text<'_>>, Option<Text<'_>>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.into()), None),
        Err(_) => (None, Some(encode(bytes))),
    }
}

/// The bytes, if exactly one of both is there.
fn bytes_of(text: Option<Text<'_>>, base64: Option<Text<'_>>) -> Option<Vec<u8>> {
    match (text, base64) {
        (Some(text), None) => Some(text.into_owned().into_bytes()),
        (None, Some(base64)) => STANDARD.decode(&*base64).ok(),
        _ => None,
    }
}

impl<'a> Fields<'a> {
    /// A key, to which what the line has of its value is added.
    pub(super) fn key(stored: &'a [u8], expires: Option<u64>) -> Self {
        let (database, name) = Database::split(stored).unwrap_or((Database::default(), stored));
        let (key, key64) = text_or_base64(name);
        Self {
            db: Some(database.number()).filter(|&number| number > 0),
            key,
            key64,
            expires,
            ..Self::default()
        }
    }

    /// The value of a string.
    pub(super) fn with_value(mut self, value: &'a [u8]) -> Self {
        (self.value, self.value64) = text_or_base64(value);
        self
    }

    /// A string of so many bytes, which follow in parts, or a stream whose words are too many.
    pub(super) fn with_bytes(mut self, bytes: u64, is_stream: bool) -> Self {
        self.kind = is_stream.then(|| STREAM.into());
        self.bytes = Some(bytes);
        self
    }

    /// A collection of so many entries, which follow, or a stream of so many words.
    pub(super) fn with_count(mut self, kind: Kind, is_stream: bool, entries: u64) -> Self {
        let name = if is_stream { STREAM } else { name_of(kind) };
        self.kind = Some(name.into());
        self.entries = Some(entries);
        self
    }

    /// The same with the list that they are as a stream.
    pub(super) fn into_stream(mut self) -> Self {
        (self.stream, self.stream64) = (self.list.take(), self.list64.take());
        self
    }

    /// All entries of a collection, or some; as text, if all of these are text. `None`: the value of a
    /// member is no score.
    pub(super) fn with_entries(
        mut self,
        kind: Kind,
        entries: &[(&'a [u8], &'a [u8])],
    ) -> Option<Self> {
        let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
        let has_text = |&(key, value): &(&[u8], &[u8])| {
            is_text(key) && (kind == Kind::SortedSet || is_text(value))
        };
        let as_text = entries.iter().all(has_text);
        let one = |bytes: &'a [u8]| match std::str::from_utf8(bytes) {
            Ok(text) if as_text => text.into(),
            _ => encode(bytes),
        };
        let entries = entries.iter();
        match kind {
            Kind::List | Kind::Set => {
                let elements = Some(entries.map(|(key, _)| one(key)).collect());
                *match (kind, as_text) {
                    (Kind::List, true) => &mut self.list,
                    (Kind::List, false) => &mut self.list64,
                    (_, true) => &mut self.set,
                    (_, false) => &mut self.set64,
                } = elements;
            }
            Kind::Hash => {
                let pairs = entries.map(|(key, value)| (one(key), one(value)));
                let place = if as_text {
                    &mut self.hash
                } else {
                    &mut self.hash64
                };
                *place = Some(pairs.collect());
            }
            Kind::SortedSet => {
                let members = entries.map(|(key, value)| Some((one(key), Score(score_of(value)?))));
                let place = if as_text {
                    &mut self.zset
                } else {
                    &mut self.zset64
                };
                *place = Some(members.collect::<Option<_>>()?);
            }
        }
        Some(self)
    }

    /// An entry whose bytes follow in parts.
    pub(super) fn long_entry(lengths: Vec<u64>, score: Option<f64>) -> Self {
        Self {
            lengths: Some(lengths),
            score: score.map(Score),
            ..Self::default()
        }
    }

    pub(super) fn part(bytes: &'a [u8]) -> Self {
        let (part, part64) = text_or_base64(bytes);
        Self {
            part,
            part64,
            ..Self::default()
        }
    }

    /// Takes what the line is of; what is left should not be there.
    fn line(&mut self) -> Option<Line> {
        if self.key.is_none() && self.key64.is_none() {
            return self.following();
        }
        let name = bytes_of(self.key.take(), self.key64.take())?;
        let database = Database::new(self.db.take().unwrap_or(0))?;
        let name = database.stored(&name).into_owned();
        let expires = self.expires.take();
        let value = if let Some(bytes) = self.bytes.take() {
            match self.kind.take() {
                None => Value::Bytes(bytes),
                Some(kind) if kind == STREAM => Value::Stream(bytes),
                Some(_) => return None,
            }
        } else if let Some(kind) = self.kind.take() {
            let is_stream = kind == STREAM;
            let kind = if is_stream {
                Kind::List
            } else {
                kind_named(&kind)?
            };
            Value::Count {
                kind,
                is_stream,
                entries: self.entries.take()?,
            }
        } else if let Some(entries) = self.entries().ok()? {
            Value::Collection(entries)
        } else {
            Value::String(bytes_of(self.value.take(), self.value64.take())?)
        };
        Some(Line::Key {
            name,
            value,
            expires,
        })
    }

    fn following(&mut self) -> Option<Line> {
        if let Some(lengths) = self.lengths.take() {
            let score = self.score.take().map(|Score(score)| score);
            return Some(Line::LongEntry { lengths, score });
        }
        if let Some(entries) = self.entries().ok()? {
            return Some(Line::Entries(entries));
        }
        bytes_of(self.part.take(), self.part64.take()).map(Line::Part)
    }

    fn entries(&mut self) -> Result<Option<Entries>, ()> {
        let hash = collection::read(self.hash.take(), self.hash64.take(), collection::pair)?;
        let list = collection::read(self.list.take(), self.list64.take(), collection::element)?;
        let set = collection::read(self.set.take(), self.set64.take(), collection::element)?;
        let zset = collection::read(self.zset.take(), self.zset64.take(), collection::member)?;
        let words = collection::read(
            self.stream.take(),
            self.stream64.take(),
            collection::element,
        )?;
        let all = [
            (Kind::Hash, false, hash),
            (Kind::List, false, list),
            (Kind::Set, false, set),
            (Kind::SortedSet, false, zset),
            (Kind::List, true, words),
        ];
        let mut all = all.into_iter().filter_map(|(kind, is_stream, all)| {
            Some(Entries {
                kind,
                is_stream,
                all: all?,
            })
        });
        match (all.next(), all.next()) {
            (found, None) => Ok(found),
            _ => Err(()),
        }
    }
}

/// A line that was read.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Key {
        name: Vec<u8>,
        value: Value,
        expires: Option<u64>,
    },
    /// Of the collection before.
    Entries(Entries),
    /// Bytes of the strings of the collection's next entry.
    LongEntry {
        lengths: Vec<u64>,
        score: Option<f64>,
    },
    Part(Vec<u8>),
}

/// The type of a stream in a line.
const STREAM: &str = "stream";

/// What stands beside a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value {
    String(Vec<u8>),
    /// Of a string, whose parts follow.
    Bytes(u64),
    /// Of a stream, as the engine keeps it, whose parts follow.
    Stream(u64),
    Collection(Entries),
    /// So many entries of a collection, which follow, or words of a stream.
    Count {
        kind: Kind,
        is_stream: bool,
        entries: u64,
    },
}

impl Line {
    /// `None`: no line of a copy.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let mut fields: Fields<'_> = serde_json::from_slice(line).ok()?;
        let line = fields.line()?;
        (fields == Fields::default()).then_some(line)
    }
}

/// A line with the checksum of all bytes before it: at the end, or on the way.
pub(super) fn check(word: &str, keys: u64, sum: u32) -> String {
    format!("{{\"{word}\":{{\"keys\":{keys},\"checksum\":\"{sum:08x}\"}}}}\n")
}

/// In [`check`]: on the way.
pub(super) const CHECK: &str = "check";
/// In [`check`]: at the end.
pub(super) const END: &str = "end";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_cannot_be() {
        for line in [
            "",
            "{}",
            r#"{"key":"a"}"#,
            r#"{"value":"a"}"#,
            r#"{"key":"a","key64":"YQ==","value":"b"}"#,
            r#"{"key":"a","value":"b","value64":"YQ=="}"#,
            r#"{"key":"a","value":"b","bytes":1}"#,
            r#"{"key":"a","value":"b","part":"c"}"#,
            r#"{"part":"c","expires":1}"#,
            r#"{"part":"c","bytes":1}"#,
            r#"{"key64":"?","value":"b"}"#,
            r#"{"key":"a","value":"b","more":1}"#,
            r#"{"key":"a","value":"b"} {}"#,
            r#"{"key":"a","value":"b","expires":-1}"#,
            r#"{"key":"a","list":["b"],"value":"b"}"#,
            r#"{"key":"a","list":["b"],"set":["b"]}"#,
            r#"{"key":"a","list":["b"],"list64":["YQ=="]}"#,
            r#"{"key":"a","list":["b"],"type":"list"}"#,
            r#"{"key":"a","list64":["?"]}"#,
            r#"{"key":"a","hash":["b"]}"#,
            r#"{"key":"a","hash":[["b"]]}"#,
            r#"{"key":"a","hash":[["b","c","d"]]}"#,
            r#"{"key":"a","zset":[["b","1"]]}"#,
            r#"{"key":"a","zset":[["b",null]]}"#,
            r#"{"key":"a","type":"list"}"#,
            r#"{"key":"a","type":"list","bytes":1}"#,
            r#"{"key":"a","type":"stream"}"#,
            r#"{"key":"a","stream":["last"],"list":["b"]}"#,
            r#"{"key":"a","type":"string","entries":1}"#,
            r#"{"key":"a","entries":1}"#,
            r#"{"list":["b"],"expires":1}"#,
            r#"{"list":["b"],"part":"c"}"#,
            r#"{"lengths":[1],"part":"c"}"#,
            r#"{"lengths":[-1]}"#,
            r#"{"score":1}"#,
        ] {
            assert_eq!(Line::parse(line.as_bytes()), None, "{line}");
        }
    }
}
