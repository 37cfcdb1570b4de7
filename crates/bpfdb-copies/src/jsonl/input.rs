//! Reads a copy of JSON lines.

use std::io::Read;

use bpfdb::ValueType;
use bpfdb_values::limits::Kind;

use super::collection::Entries;
use super::line::{self, Head, Line, Value};
use super::{FIRST_VERSION, LINE_MAX, PART, VERSION};
use crate::collection::{Builder, Fault, checked_stream, score_bytes, stream_of_words, type_of};
use crate::error::{Error, Result, damaged, foreign};
use crate::limits::{KEY_MAX, TIME_MAX, VALUE_MAX};
use crate::sink::{Contents, Key, Sink};
use crate::source::{Plain, Source};

struct Reader<'a, R> {
    source: Source<Plain<R>>,
    line: Vec<u8>,
    /// Where the line begins.
    at: u64,
    /// Of all lines before.
    sum: u32,
    /// Where the bytes begin that no checksum was compared for.
    unchecked: u64,
    sink: &'a mut dyn Sink,
    contents: &'a mut Contents,
    /// Keys so far, with that whose value is to come.
    keys: u64,
    /// Bytes of a long string that are to come.
    left: u64,
    /// A long collection that is not whole.
    collection: Option<Coming>,
    /// A stream that is not whole: its key, when it expires, and its bytes.
    stream: Option<ComingStream>,
}

struct ComingStream {
    name: Vec<u8>,
    expires_at: Option<u64>,
    bytes: Vec<u8>,
}

/// A collection, as far as it has come.
struct Coming {
    name: Vec<u8>,
    expires_at: Option<u64>,
    /// They are the words of a stream.
    is_stream: bool,
    /// Entries that it has in all.
    entries: u64,
    so_far: Builder,
    /// The next one, if its bytes come in parts.
    long: Option<LongEntry>,
}

struct LongEntry {
    /// Bytes of its key.
    key: usize,
    /// And of its key and value.
    len: usize,
    /// Of both.
    bytes: Vec<u8>,
    score: Option<f64>,
}

/// Gives everything to `sink`. `source` stands at the beginning.
pub(crate) fn read<R: Read>(
    source: Source<Plain<R>>,
    sink: &mut dyn Sink,
    contents: &mut Contents,
) -> Result<()> {
    let mut reader = Reader {
        source,
        line: Vec::new(),
        at: 0,
        sum: 0,
        unchecked: 0,
        sink,
        contents,
        keys: 0,
        left: 0,
        collection: None,
        stream: None,
    };
    reader.next()?;
    reader.head()?;
    loop {
        reader.next()?;
        if reader.is_check(line::END) {
            break;
        }
        reader.step()?;
    }
    if !reader.is_between() {
        return Err(damaged(reader.at, "the value before is not whole"));
    }
    reader.compare(line::END)?;
    if !reader.source.is_at_end()? {
        return Err(damaged(reader.source.offset(), "something follows the end"));
    }
    Ok(())
}

impl<R: Read> Reader<'_, R> {
    fn next(&mut self) -> Result<()> {
        self.sum = crc32c::crc32c_append(self.sum, &self.line);
        self.at = self.source.offset();
        if self.source.line(&mut self.line, LINE_MAX)? {
            return Ok(());
        }
        Err(damaged(self.at, "a line is longer than any may be"))
    }

    fn head(&mut self) -> Result<()> {
        let head: Option<Head> = serde_json::from_slice(&self.line).ok();
        let Some(head) = head else {
            return Err(damaged(0, "the first line is not that of a copy"));
        };
        if !(FIRST_VERSION..=VERSION).contains(&head.version) {
            let what = format!(
                "version {} of the form; versions {FIRST_VERSION} to {VERSION} are known",
                head.version
            );
            return Err(foreign(0, what));
        }
        self.contents.time = Some(head.time);
        Ok(())
    }

    fn is_check(&self, word: &str) -> bool {
        let rest = self.line.strip_prefix(b"{\"");
        let rest = rest.and_then(|rest| rest.strip_prefix(word.as_bytes()));
        rest.is_some_and(|rest| rest.starts_with(b"\":"))
    }

    /// Is the checksum that the line states that of all lines before?
    fn compare(&mut self, word: &str) -> Result<()> {
        let right = line::check(word, self.keys, self.sum);
        if self.line == right.as_bytes() {
            self.unchecked = self.source.offset();
            return Ok(());
        }
        let (from, to) = (self.unchecked, self.source.offset());
        Err(damaged(
            from,
            format!("the bytes from there to {to} do not have their checksum"),
        ))
    }

    /// Is the value before whole?
    fn is_between(&self) -> bool {
        self.left == 0 && self.collection.is_none()
    }

    fn step(&mut self) -> Result<()> {
        // A checksum may also stand between the parts of a value.
        if self.is_check(line::CHECK) {
            return self.compare(line::CHECK);
        }
        match Line::parse(&self.line) {
            Some(Line::Key {
                name,
                value,
                expires,
            }) if self.is_between() => self.key(name, value, expires),
            Some(Line::Part(bytes)) if self.left > 0 => self.part(&bytes),
            Some(line) => match self.collection.take() {
                Some(coming) => self.go_on(coming, line),
                None => Err(self.misplaced()),
            },
            None => Err(self.misplaced()),
        }
    }

    fn misplaced(&self) -> Error {
        damaged(self.at, "no line of a copy, or not in this place")
    }

    fn key(&mut self, name: Vec<u8>, value: Value, expires_at: Option<u64>) -> Result<()> {
        if name.is_empty() || name.len() > KEY_MAX {
            return Err(damaged(
                self.at,
                "a key is longer than any may be, or empty",
            ));
        }
        if expires_at.is_some_and(|time| time > TIME_MAX) {
            return Err(damaged(self.at, "a time is later than any may be"));
        }
        self.keys += 1;
        match value {
            Value::String(value) if value.len() <= PART => {
                self.string(&name, value.len() as u64, expires_at)?;
                self.part(&value)
            }
            Value::Bytes(bytes) if bytes > PART as u64 && bytes <= VALUE_MAX => {
                self.string(&name, bytes, expires_at)
            }
            Value::Stream(len) if len > 0 && len <= VALUE_MAX => {
                self.left = len;
                self.stream = Some(ComingStream {
                    name,
                    expires_at,
                    bytes: Vec::new(),
                });
                Ok(())
            }
            Value::String(_) | Value::Bytes(_) | Value::Stream(_) => Err(damaged(
                self.at,
                "a value of another length than any may have there",
            )),
            Value::Collection(entries) => {
                let mut coming = Coming::new(name, entries.kind, expires_at);
                coming.is_stream = entries.is_stream;
                coming.entries = entries.all.len() as u64;
                self.go_on(coming, Line::Entries(entries))
            }
            Value::Count {
                kind,
                is_stream,
                entries,
            } => {
                let mut coming = Coming::new(name, kind, expires_at);
                coming.is_stream = is_stream;
                coming.entries = entries;
                self.collection = Some(coming);
                Ok(())
            }
        }
    }

    fn string(&mut self, name: &[u8], len: u64, expires_at: Option<u64>) -> Result<()> {
        let key = Key {
            name,
            kind: ValueType::STRING,
            len,
            expires_at,
        };
        self.left = len;
        self.contents.count(&key);
        self.sink.key(&key)
    }

    fn part(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Err(damaged(self.at, "a value is longer than it should be"));
        };
        self.left = left;
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some(mut stream) = self.stream.take() {
            stream.bytes.extend_from_slice(bytes);
            if left == 0 {
                return self.give_stream(&stream);
            }
            self.stream = Some(stream);
            return Ok(());
        }
        self.sink.part(bytes)
    }

    fn give_stream(&mut self, stream: &ComingStream) -> Result<()> {
        let at = self.at;
        checked_stream(&stream.bytes).map_err(|fault| fault.at(at))?;
        let key = Key {
            name: &stream.name,
            kind: ValueType::STREAM,
            len: stream.bytes.len() as u64,
            expires_at: stream.expires_at,
        };
        self.contents.count(&key);
        self.sink.key(&key)?;
        self.sink.part(&stream.bytes)
    }

    /// A line of a collection, which is given if that was the last one.
    fn go_on(&mut self, mut coming: Coming, line: Line) -> Result<()> {
        let at = self.at;
        let taken = match line {
            Line::Entries(entries) => coming.take(entries),
            Line::LongEntry { lengths, score } => coming.begin_long(&lengths, score),
            Line::Part(bytes) => coming.part(&bytes),
            Line::Key { .. } => return Err(self.misplaced()),
        };
        taken.map_err(|fault| fault.at(at))?;
        if !coming.is_whole() {
            self.collection = Some(coming);
            return Ok(());
        }
        let mut kind = type_of(coming.so_far.kind());
        let mut run = coming.so_far.finish().map_err(|fault| fault.at(at))?;
        if coming.is_stream {
            kind = ValueType::STREAM;
            run = stream_of_words(&run).map_err(|fault| fault.at(at))?;
        }
        let key = Key {
            name: &coming.name,
            kind,
            len: run.len() as u64,
            expires_at: coming.expires_at,
        };
        self.contents.count(&key);
        self.sink.key(&key)?;
        self.sink.part(&run)
    }
}

impl Coming {
    fn new(name: Vec<u8>, kind: Kind, expires_at: Option<u64>) -> Self {
        Self {
            name,
            expires_at,
            is_stream: false,
            entries: 0,
            so_far: Builder::new(kind),
            long: None,
        }
    }

    fn is_whole(&self) -> bool {
        self.long.is_none() && self.so_far.len() as u64 == self.entries
    }

    fn take(&mut self, entries: Entries) -> Result<(), Fault> {
        let is_other = entries.kind != self.so_far.kind() || entries.is_stream != self.is_stream;
        if self.long.is_some() || is_other {
            return Err(Fault::Damaged("entries that are not in their place"));
        }
        for (key, value) in &entries.all {
            self.push(key, value)?;
        }
        Ok(())
    }

    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        if self.so_far.len() as u64 >= self.entries {
            return Err(Fault::Damaged(
                "a collection has more entries than it should",
            ));
        }
        self.so_far.entry(key, value)
    }

    fn begin_long(&mut self, lengths: &[u64], score: Option<f64>) -> Result<(), Fault> {
        let (key, value) = match (self.so_far.kind(), lengths, score) {
            (Kind::List | Kind::Set, &[key], None) => (key, 0),
            (Kind::Hash, &[key, value], None) => (key, value),
            (Kind::SortedSet, &[key], Some(_)) => (key, 0),
            _ => return Err(Fault::Damaged("an entry of another type")),
        };
        let len = key.saturating_add(value);
        if self.long.is_some() || len == 0 {
            return Err(Fault::Damaged("a long entry that is not in its place"));
        }
        if len > VALUE_MAX {
            return Err(Fault::TooLong);
        }
        self.long = Some(LongEntry {
            key: key as usize,
            len: len as usize,
            bytes: Vec::new(),
            score,
        });
        Ok(())
    }

    fn part(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let Some(mut long) = self.long.take() else {
            return Err(Fault::Damaged("a part that is not in its place"));
        };
        long.bytes.extend_from_slice(bytes);
        if long.bytes.len() > long.len {
            return Err(Fault::Damaged("an entry is longer than it should be"));
        }
        if long.bytes.len() < long.len {
            self.long = Some(long);
            return Ok(());
        }
        let (key, value) = long.bytes.split_at(long.key);
        match long.score {
            Some(score) => self.push(key, &score_bytes(score)),
            None => self.push(key, value),
        }
    }
}
