//! Reads a collection of every form that there was.

use bpfdb_values::limits::Kind;

use super::super::Dialect;
use super::super::packed::{Each, intset, listpack, ziplist, zipmap};
use super::super::string::{read_len, read_short};
use crate::collection::{Builder, Fault, parse_score, too_long};
use crate::error::{Result, damaged};
use crate::limits::VALUE_MAX;
use crate::source::{Input, Source};

/// The last type of Redis 7.0 that a collection has.
pub(in crate::rdb) const LAST_OF_7_0: u8 = 18;

/// In a list's node: one element that is longer than a listpack may be, and a listpack.
const PLAIN: u64 = 1;
const PACKED: u64 = 2;
/// For an infinite score as text, and for one that is no number.
const MINUS_INFINITY: u8 = 255;
const INFINITY: u8 = 254;
const NOT_A_NUMBER: u8 = 253;
/// Of Valkey: the time of a field that has none.
const NEVER: i64 = -1;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::rdb) enum Collection {
    /// The bytes of its run.
    Run(Vec<u8>),
    /// Without an entry, which Redis takes for no key.
    Empty,
    /// A hash one of whose fields expires.
    Expiring,
}

/// What a type is of; `None`: no collection.
pub(in crate::rdb) fn kind(dialect: Dialect, number: u8) -> Option<Kind> {
    Some(match number {
        1 | 10 | 14 | 18 => Kind::List,
        2 | 11 | 20 => Kind::Set,
        3 | 5 | 12 | 17 => Kind::SortedSet,
        4 | 9 | 13 | 16 | 22 => Kind::Hash,
        23..=25 if dialect == Dialect::Redis => Kind::Hash,
        _ => return None,
    })
}

/// The next value, which is of the type with this number.
pub(in crate::rdb) fn read<I: Input>(
    source: &mut Source<I>,
    dialect: Dialect,
    number: u8,
) -> Result<Collection> {
    let at = source.offset();
    let Some(kind) = kind(dialect, number) else {
        return Err(damaged(at, format!("no collection has the type {number}")));
    };
    let mut reader = Reader {
        source,
        text: Vec::new(),
        collection: Builder::new(kind),
        expires: false,
    };
    match number {
        1 | 2 => reader.strings(1)?,
        4 => reader.strings(2)?,
        3 | 5 => reader.members(number == 5)?,
        9 => reader.packed(zipmap::read)?,
        10 | 12 | 13 => reader.packed(ziplist::read)?,
        11 => reader.packed(intset::read)?,
        14 => reader.ziplists()?,
        16 | 17 | 20 => reader.packed(listpack::read)?,
        18 => reader.nodes()?,
        22 if dialect == Dialect::Valkey => reader.fields_and_times()?,
        22 => reader.times_and_fields()?,
        23 => reader.packed_times()?,
        24 => {
            // The first time at which a field expires.
            reader.source.skip(8)?;
            reader.times_and_fields()?;
        }
        _ => {
            reader.source.skip(8)?;
            reader.packed_times()?;
        }
    }
    if reader.expires {
        return Ok(Collection::Expiring);
    }
    match reader.collection.finish() {
        Ok(run) => Ok(Collection::Run(run)),
        Err(Fault::Empty) => Ok(Collection::Empty),
        Err(fault) => Err(fault.at(at)),
    }
}

struct Reader<'a, I> {
    source: &'a mut Source<I>,
    /// The string that was read last.
    text: Vec<u8>,
    collection: Builder,
    /// A field has a time.
    expires: bool,
}

impl<I: Input> Reader<'_, I> {
    /// Reads a string, and says where it begins.
    fn text(&mut self) -> Result<u64> {
        let at = self.source.offset();
        if read_short(self.source, VALUE_MAX as usize, &mut self.text)? {
            return Ok(at);
        }
        Err(too_long(at))
    }

    /// Takes a string as it is.
    fn string(&mut self) -> Result<()> {
        let at = self.text()?;
        self.collection
            .string(&self.text)
            .map_err(|fault| fault.at(at))
    }

    /// So many entries, of `each` strings.
    fn strings(&mut self, each: u64) -> Result<()> {
        for _ in 0..read_len(self.source)? {
            (0..each).try_for_each(|_| self.string())?;
        }
        Ok(())
    }

    fn members(&mut self, is_binary: bool) -> Result<()> {
        for _ in 0..read_len(self.source)? {
            let at = self.text()?;
            let score = if is_binary {
                f64::from_le_bytes(self.source.array()?)
            } else {
                self.score()?
            };
            let taken = self.collection.member(&self.text, score);
            taken.map_err(|fault| fault.at(at))?;
        }
        Ok(())
    }

    /// A score as text, or a mark for what is none, or infinite.
    fn score(&mut self) -> Result<f64> {
        let at = self.source.offset();
        let len = match self.source.byte()? {
            NOT_A_NUMBER => return Ok(f64::NAN),
            INFINITY => return Ok(f64::INFINITY),
            MINUS_INFINITY => return Ok(f64::NEG_INFINITY),
            len => len,
        };
        let mut text = Vec::with_capacity(len.into());
        self.source.parts(len.into(), |part| {
            text.extend_from_slice(part);
            Ok(())
        })?;
        parse_score(&text).map_err(|fault| fault.at(at))
    }

    /// A string that has all of the collection, or the next elements of a list.
    fn packed(&mut self, read: impl Fn(&[u8], Each<'_>) -> Result<(), Fault>) -> Result<()> {
        let at = self.text()?;
        let collection = &mut self.collection;
        read(&self.text, &mut |string| collection.string(string)).map_err(|fault| fault.at(at))
    }

    fn ziplists(&mut self) -> Result<()> {
        (0..read_len(self.source)?).try_for_each(|_| self.packed(ziplist::read))
    }

    fn nodes(&mut self) -> Result<()> {
        for _ in 0..read_len(self.source)? {
            let at = self.source.offset();
            match read_len(self.source)? {
                PLAIN => self.string()?,
                PACKED => self.packed(listpack::read)?,
                _ => return Err(damaged(at, "a node of a list of an unknown kind")),
            }
        }
        Ok(())
    }

    /// The time of each field stands before it; 0: none.
    fn times_and_fields(&mut self) -> Result<()> {
        for _ in 0..read_len(self.source)? {
            self.expires |= read_len(self.source)? != 0;
            self.string()?;
            self.string()?;
        }
        Ok(())
    }

    /// And behind its value, in files of Valkey.
    fn fields_and_times(&mut self) -> Result<()> {
        for _ in 0..read_len(self.source)? {
            self.string()?;
            self.string()?;
            self.expires |= i64::from_le_bytes(self.source.array()?) != NEVER;
        }
        Ok(())
    }

    /// Fields, values and times; 0: none.
    fn packed_times(&mut self) -> Result<()> {
        let at = self.text()?;
        let (collection, expires) = (&mut self.collection, &mut self.expires);
        let mut strings = 0;
        let read = listpack::read(&self.text, &mut |string| {
            strings += 1;
            if strings % 3 != 0 {
                return collection.string(string);
            }
            *expires |= string != b"0";
            Ok(())
        });
        read.map_err(|fault| fault.at(at))?;
        if strings % 3 != 0 {
            return Err(damaged(at, "a field without a time"));
        }
        Ok(())
    }
}
