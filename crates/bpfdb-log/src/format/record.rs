//! Records: the writes of one commit, or a part of a large value.

use crate::format::form::{self, Content, ValueType};
use crate::format::layout::{Invalid, round_up, u32_at, u64_at};

/// Records, entries, keys and values begin at multiples of this, in bytes.
pub const UNIT: usize = 16;

const KIND_COMMIT: u32 = 1;
const KIND_PART: u32 = 2;
const HEADER: usize = 16;
pub(crate) const PART_HEADER: usize = HEADER + 24;
const ENTRY_HEADER: usize = 16;
/// Bytes of the longest key that an entry has room for.
const KEY_MAX: u64 = 0xffff;

/// One record. It borrows the payload that it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    Commit(Commit<'a>),
    Part(Part<'a>),
}

/// All writes of one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit<'a> {
    pub timestamp: u64,
    entries: &'a [u8],
}

/// Bytes of a large value, from `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    pub id: u64,
    pub offset: u64,
    pub bytes: &'a [u8],
}

/// One write of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub key: &'a [u8],
    pub value: Value<'a>,
    /// Milliseconds of UNIX time.
    pub expires: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Deleted,
    /// A string.
    Inline(&'a [u8]),
    /// The bytes of a value that is no string; at least one.
    Typed(ValueType, &'a [u8]),
    /// Of any type. Its parts precede the commit.
    Large {
        kind: ValueType,
        id: u64,
        len: u64,
    },
}

impl<'a> Commit<'a> {
    /// `entries` as they stand in a record, from behind its header.
    pub fn new(timestamp: u64, entries: &'a [u8]) -> Self {
        Self { timestamp, entries }
    }

    pub fn entries(&self) -> Entries<'a> {
        Entries(self.entries)
    }

    /// The entries as they stand in the record.
    pub fn bytes(&self) -> &'a [u8] {
        self.entries
    }
}

impl<'a> Part<'a> {
    fn decode(record: &'a [u8]) -> Result<Self, Invalid> {
        let part = Self {
            id: u64_at(record, HEADER)?,
            offset: u64_at(record, HEADER + 8)?,
            bytes: room(record, PART_HEADER, u64_at(record, HEADER + 16)?)?,
        };
        let end = part.offset.checked_add(part.bytes.len() as u64);
        end.map(|_| part).ok_or(Invalid::Field("offset"))
    }
}

/// `len` bytes at `at`.
fn room(bytes: &[u8], at: usize, len: u64) -> Result<&[u8], Invalid> {
    usize::try_from(len)
        .ok()
        .and_then(|len| at.checked_add(len))
        .and_then(|end| bytes.get(at..end))
        .ok_or(Invalid::Field("length"))
}

/// The records of a payload, each with the bytes before it. Ends after an error.
pub struct Records<'a> {
    payload: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    pub fn new(payload: &'a [u8]) -> Self {
        Self { payload, at: 0 }
    }

    /// Bytes before the next record.
    pub fn position(&self) -> usize {
        self.at
    }

    fn take(&mut self) -> Result<Record<'a>, Invalid> {
        let rest = &self.payload[self.at..];
        let size = u32_at(rest, 0)? as usize;
        let record = rest.get(..size).ok_or(Invalid::Field("size"))?;
        if !size.is_multiple_of(UNIT) || size < HEADER {
            return Err(Invalid::Field("size"));
        }
        let timestamp = u64_at(record, 8)?;
        self.at += size;
        match (u32_at(record, 4)?, timestamp) {
            (KIND_COMMIT, 1..) => Ok(Record::Commit(Commit::new(timestamp, &record[HEADER..]))),
            (KIND_PART, 0) => Part::decode(record).map(Record::Part),
            (KIND_COMMIT | KIND_PART, _) => Err(Invalid::Field("timestamp")),
            _ => Err(Invalid::Field("kind")),
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(usize, Record<'a>), Invalid>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.payload.len() {
            return None;
        }
        let at = self.at;
        let record = self.take();
        if record.is_err() {
            self.at = self.payload.len();
        }
        Some(record.map(|record| (at, record)))
    }
}

/// The entries of a commit. Ends after an error.
#[derive(Clone, Debug)]
pub struct Entries<'a>(&'a [u8]);

impl<'a> Entries<'a> {
    /// Entries one behind the other.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Those that were not read yet, as they stand there.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    fn take(&mut self) -> Result<Entry<'a>, Invalid> {
        let word = u64_at(self.0, 0)?;
        let (form, key_len) = (word as u32 & ((1 << form::BITS) - 1), word >> form::BITS);
        if key_len == 0 || key_len > KEY_MAX {
            return Err(Invalid::Field("key's length"));
        }
        let (content, expires) = form::decode(form)?;
        let key = room(self.0, ENTRY_HEADER, key_len)?;
        let value_at = ENTRY_HEADER + padded(key.len());
        let (value, size) = decode_value(self.0, value_at, content)?;
        let expires = match expires {
            true => Some(u64_at(self.0, 8)?),
            false => None,
        };
        self.0 = self
            .0
            .get(value_at + size..)
            .ok_or(Invalid::Field("value's length"))?;
        Ok(Entry {
            key,
            value,
            expires,
        })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Invalid>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.take();
        if entry.is_err() {
            self.0 = &[];
        }
        Some(entry)
    }
}

/// The value, and the bytes that it takes.
fn decode_value(
    entries: &[u8],
    at: usize,
    content: Content,
) -> Result<(Value<'_>, usize), Invalid> {
    let (kind, len) = match content {
        Content::Deleted => return Ok((Value::Deleted, 0)),
        Content::Large(kind) => {
            let (id, len) = (u64_at(entries, at)?, u64_at(entries, at + 8)?);
            return Ok((Value::Large { kind, id, len }, UNIT));
        }
        Content::Bytes(kind, len) => (kind, len),
    };
    let bytes = room(entries, at, u64::from(len))?;
    let size = padded(bytes.len()).max(UNIT);
    Ok(match kind {
        ValueType::STRING => (Value::Inline(bytes), size),
        kind => (Value::Typed(kind, bytes), size),
    })
}

fn padded(len: usize) -> usize {
    round_up(len as u64, UNIT as u64) as usize
}

/// Appends the record of a commit to `out`.
///
/// # Panics
/// If a key is empty or longer than 65,535 bytes, or a value than
/// [`INLINE_MAX`](crate::format::form::INLINE_MAX).
pub fn encode_commit(timestamp: u64, entries: &[Entry<'_>], out: &mut Vec<u8>) {
    let start = out.len();
    put_header(out, KIND_COMMIT, timestamp);
    for entry in entries {
        encode_entry(entry, out);
    }
    finish(out, start);
}

/// Appends the record of a part to `out`.
pub fn encode_part(part: &Part<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    put_header(out, KIND_PART, 0);
    for field in [part.id, part.offset, part.bytes.len() as u64] {
        out.extend(field.to_le_bytes());
    }
    out.extend(part.bytes);
    pad(out, start);
    finish(out, start);
}

fn put_header(out: &mut Vec<u8>, kind: u32, timestamp: u64) {
    out.extend([0; 4]);
    out.extend(kind.to_le_bytes());
    out.extend(timestamp.to_le_bytes());
}

fn finish(out: &mut [u8], start: usize) {
    let size = u32::try_from(out.len() - start).expect("a record is below 4 GiB");
    out[start..start + 4].copy_from_slice(&size.to_le_bytes());
}

/// Zeros up to the next multiple of a unit, counted from `start`.
fn pad(out: &mut Vec<u8>, start: usize) {
    out.resize(start + padded(out.len() - start), 0);
}

fn length(value: &[u8]) -> u32 {
    u32::try_from(value.len()).expect("length of a value")
}

/// Appends an entry to `out`.
///
/// # Panics
/// As [`encode_commit`].
pub fn encode_entry(entry: &Entry<'_>, out: &mut Vec<u8>) {
    let key_len = entry.key.len() as u64;
    assert!((1..=KEY_MAX).contains(&key_len), "length of a key");
    let content = match entry.value {
        Value::Deleted => Content::Deleted,
        Value::Large { kind, .. } => Content::Large(kind),
        Value::Inline(value) => Content::Bytes(ValueType::STRING, length(value)),
        Value::Typed(kind, value) => Content::Bytes(kind, length(value)),
    };
    let word = u64::from(form::encode(content, entry.expires.is_some())) | key_len << form::BITS;
    out.extend(word.to_le_bytes());
    out.extend(entry.expires.unwrap_or(0).to_le_bytes());
    let key_at = out.len();
    out.extend(entry.key);
    pad(out, key_at);
    encode_value(&entry.value, out);
}

fn encode_value(value: &Value<'_>, out: &mut Vec<u8>) {
    let at = out.len();
    match *value {
        Value::Deleted => {}
        Value::Inline(value) | Value::Typed(_, value) => {
            out.extend(value);
            out.resize(at + padded(value.len()).max(UNIT), 0);
        }
        Value::Large { id, len, .. } => {
            out.extend(id.to_le_bytes());
            out.extend(len.to_le_bytes());
        }
    }
}
