//! The interface between readers and writers: keys, each followed by its value in parts.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use bpfdb::ValueType;

use crate::collection::{Content, content_of_key};
use crate::error::Result;

/// What is known of a key before its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    pub name: &'a [u8],
    /// A string, a collection or a stream.
    pub kind: ValueType,
    /// Bytes of the value. Those of a collection are the packed run that the engine keeps
    /// ([`bpfdb_values::run`]).
    pub len: u64,
    /// UNIX time, milliseconds.
    pub expires_at: Option<u64>,
}

impl Key<'_> {
    /// # Errors
    /// A type that no form of a copy has a place for.
    pub(crate) fn content(&self) -> Result<Content> {
        content_of_key(self.name, self.kind)
    }
}

/// Takes keys and values. A value follows its key, in parts of any size above 0, until all
/// its bytes have come; an empty one has no part.
pub trait Sink {
    /// The reader has come so far in the file, in bytes. It ends with this error.
    fn passed(&mut self, _offset: u64) -> Result<()> {
        Ok(())
    }

    fn key(&mut self, key: &Key<'_>) -> Result<()>;
    fn part(&mut self, bytes: &[u8]) -> Result<()>;
}

/// Takes everything and keeps nothing: what it means to verify a file.
#[derive(Debug)]
pub struct Nowhere;

impl Sink for Nowhere {
    fn key(&mut self, _: &Key<'_>) -> Result<()> {
        Ok(())
    }

    fn part(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// What a file has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Keys that the reader gave.
    pub keys: u64,
    /// Of these, those that expire, or have expired.
    pub expiring: u64,
    /// Keys of a file of Redis whose names only bpfdb itself may use: they are left out.
    pub reserved: u64,
    /// Bytes of the values of the keys that the reader gave, as the engine keeps them.
    pub bytes: u64,
    /// When it was written, milliseconds of UNIX time, if it says so.
    pub time: Option<u64>,
    /// Keys left out because they are of other types, by the name of the type.
    pub other_types: BTreeMap<&'static str, u64>,
    /// The first of these keys, with escapes, and its type.
    pub first_other: Option<(String, &'static str)>,
    /// Keys left out because they are too long.
    pub long_keys: u64,
    /// The first of these keys.
    pub first_long: Vec<LongKey>,
    /// Keys left out because they are in other databases.
    pub other_databases: u64,
    /// Libraries of functions in a file of Redis. Together they are one more key,
    /// [`bpfdb::FUNCTIONS_KEY`], which `keys` does not count.
    pub functions: u64,
    /// Redis was configured to write no checksum: damage need not be found.
    pub is_unchecked: bool,
}

impl Contents {
    pub(crate) fn count(&mut self, key: &Key<'_>) {
        self.keys += 1;
        self.bytes += key.len;
        self.expiring += u64::from(key.expires_at.is_some());
    }

    pub(crate) fn count_other(&mut self, name: &[u8], kind: &'static str) {
        *self.other_types.entry(kind).or_default() += 1;
        if self.first_other.is_none() {
            self.first_other = Some((name.escape_ascii().to_string(), kind));
        }
    }

    /// Keys left out because they are too long, beside the first ones.
    pub fn unnamed_long_keys(&self) -> u64 {
        self.long_keys - self.first_long.len() as u64
    }

    pub(crate) fn count_long(&mut self, key: LongKey) {
        self.long_keys += 1;
        if self.first_long.len() < LongKey::NAMED {
            self.first_long.push(key);
        }
    }
}

/// A key that there is no room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongKey {
    /// How it begins, with escapes.
    pub beginning: String,
    /// Bytes of the whole key.
    pub len: u64,
    /// The number of its database in the file.
    pub database: u64,
}

impl LongKey {
    /// Of so many keys the names are kept.
    const NAMED: usize = 5;
    /// Bytes of a name that are shown: enough to tell what the keys are of.
    const SHOWN: usize = 64;

    pub(crate) fn new(name: &[u8], len: u64, database: u64) -> Self {
        let shown = &name[..name.len().min(Self::SHOWN)];
        Self {
            beginning: shown.escape_ascii().to_string(),
            len,
            database,
        }
    }
}

impl Display for LongKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            beginning,
            len,
            database,
        } = self;
        write!(f, "\"{beginning}…\", {len} bytes, in database {database}")
    }
}

/// Which keys of a file are given. Only files of Redis can have others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The number of a database, whose keys are given as those of database 0; `None`: the keys of all
    /// databases that there can be here, each in its own.
    pub database: Option<u64>,
    /// Keys that are too long are counted and left out; else the first one is an error.
    pub skip_long_keys: bool,
}
