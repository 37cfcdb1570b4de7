//! Reads a file of Redis.
//!
//! Invariants
//!  1. Everything is parsed and counts for the checksum, also what is left out.
//!  2. What is left out is counted, so that the keys are not taken for all there were.
//!  3. An expiry, and what else precedes a key, is that of the next key only.

use bpfdb::{Database, ValueType};
use bpfdb_values::limits::Kind;

use super::collection::{self, read::Collection};
use super::functions::LIBRARIES_MAX;
use super::{
    AUX, DATABASE, END, EXPIRES, EXPIRES_MS, FREQUENCY, FUNCTION, IDLE, MAGIC, MODULE_AUX, RESIZE,
    SLOT_IMPORT, SLOT_INFO, TYPE_STRING, VALKEY_MAGIC, VALKEY_VERSION_READ, VERSION_READ,
    VERSION_SUMMED, functions, skip, string,
};
use super::{Dialect, stream};
use crate::collection::type_of;
use crate::error::{Result, damaged, foreign};
use crate::limits::{KEY_MAX, VALUE_MAX};
use crate::sink::{Choice, Contents, Key, LongKey, Sink};
use crate::source::{Input, Source};

/// Bytes of the mark of the form and of the version together, in either form.
const BEGINNING: usize = 9;
/// Libraries in a file, however short: bpfdb itself compiles fewer.
const LIBRARIES_COUNT_MAX: usize = 1 << 16;
/// A type of Redis 7.4 and Valkey 9 that bpfdb does not have.
const EXPIRING_HASH: &str = "hash with fields that expire";
/// Longest name or number of an AUX field that is looked at, bytes.
const AUX_MAX: usize = 32;

/// What a type is of.
#[derive(Clone, Copy, Debug)]
enum What {
    String,
    Collection(Kind),
    Stream,
    /// What bpfdb does not have, by its name.
    Other(&'static str),
}

struct Reader<'a, I> {
    source: &'a mut Source<I>,
    dialect: Dialect,
    choice: Choice,
    sink: &'a mut dyn Sink,
    contents: &'a mut Contents,
    database: u64,
    expires_at: Option<u64>,
    name: Vec<u8>,
    /// Texts of libraries of functions.
    functions: Vec<Vec<u8>>,
    /// Bytes of these.
    functions_size: usize,
}

/// Gives the strings and collections of one database to `sink`. `source` stands at the beginning.
pub(crate) fn read<I: Input>(
    source: &mut Source<I>,
    choice: Choice,
    sink: &mut dyn Sink,
    contents: &mut Contents,
) -> Result<()> {
    source.begin_sum();
    let (dialect, version) = beginning(source)?;
    let mut reader = Reader {
        source,
        dialect,
        choice,
        sink,
        contents,
        database: 0,
        expires_at: None,
        name: Vec::new(),
        functions: Vec::new(),
        functions_size: 0,
    };
    while reader.step()? {
        // Much may be passed over that is not the sink's.
        let offset = reader.source.offset();
        reader.sink.passed(offset)?;
    }
    let has_sum = version >= VERSION_SUMMED && compare_sums(reader.source)?;
    reader.contents.is_unchecked = !has_sum;
    if !source.is_at_end()? {
        return Err(damaged(
            source.offset(),
            "something follows the end (commands, if this is an append-only file)",
        ));
    }
    Ok(())
}

/// The server that wrote the file, and the version of its form.
fn beginning<I: Input>(source: &mut Source<I>) -> Result<(Dialect, u16)> {
    let begin: [u8; BEGINNING] = source.array()?;
    let forms: [(&[u8], Dialect, _); 2] = [
        (MAGIC, Dialect::Redis, 1..=VERSION_READ),
        (
            VALKEY_MAGIC,
            Dialect::Valkey,
            VALKEY_VERSION_READ..=VALKEY_VERSION_READ,
        ),
    ];
    let found = forms.into_iter().find_map(|(magic, dialect, known)| {
        Some((begin.strip_prefix(magic)?, dialect, known, magic.len()))
    });
    let Some((digits, dialect, known, at)) = found else {
        return Err(damaged(0, "the file does not begin as one of Redis"));
    };
    let text = std::str::from_utf8(digits).unwrap_or_default();
    let digits_only = digits.iter().all(u8::is_ascii_digit);
    match text.parse::<u16>() {
        Ok(version) if digits_only && known.contains(&version) => Ok((dialect, version)),
        Ok(version @ 1..) if digits_only => Err(foreign(
            at as u64,
            format!(
                "version {version} of the form; versions {} to {} are known",
                known.start(),
                known.end()
            ),
        )),
        _ => Err(damaged(at as u64, "no version")),
    }
}

/// False: the file has none.
fn compare_sums<I: Input>(source: &mut Source<I>) -> Result<bool> {
    let (at, sum) = (source.offset(), source.sum());
    match u64::from_le_bytes(source.array()?) {
        0 => Ok(false),
        stored if stored == sum => Ok(true),
        _ => Err(damaged(
            at,
            "the checksum is not that of the bytes before: some of these, or it, are damaged",
        )),
    }
}

impl<I: Input> Reader<'_, I> {
    /// One opcode, or one key. False: that was the end.
    fn step(&mut self) -> Result<bool> {
        let at = self.source.offset();
        match self.source.byte()? {
            EXPIRES_MS => {
                let time = i64::from_le_bytes(self.source.array()?);
                self.expires_at = Some(time_of(time));
            }
            EXPIRES => {
                let seconds = i32::from_le_bytes(self.source.array()?);
                self.expires_at = Some(time_of(i64::from(seconds) * 1000));
            }
            DATABASE => self.database = string::read_len(self.source)?,
            RESIZE => self.pass_lens(2)?,
            SLOT_INFO => self.pass_lens(3)?,
            SLOT_IMPORT if self.dialect == Dialect::Valkey => self.pass_slot_import()?,
            IDLE => self.pass_lens(1)?,
            FREQUENCY => self.source.skip(1)?,
            AUX => self.aux()?,
            MODULE_AUX => skip::module_aux(self.source)?,
            FUNCTION => self.function()?,
            END => {
                self.give_functions()?;
                return Ok(false);
            }
            number => match self.what(number) {
                Some(what) => self.key(number, what)?,
                None => {
                    return Err(damaged(
                        at,
                        format!("{number:#04x} is neither type nor opcode"),
                    ));
                }
            },
        }
        Ok(true)
    }

    /// `None`: no type has this number.
    fn what(&self, number: u8) -> Option<What> {
        if number == TYPE_STRING {
            return Some(What::String);
        }
        if stream::is_stream(number) {
            return Some(What::Stream);
        }
        match collection::read::kind(self.dialect, number) {
            Some(kind) => Some(What::Collection(kind)),
            None => skip::name(number).map(What::Other),
        }
    }

    fn pass_lens(&mut self, count: usize) -> Result<()> {
        (0..count).try_for_each(|_| string::read_len(self.source).map(drop))
    }

    /// The name of a move, and the slots, as ranges.
    fn pass_slot_import(&mut self) -> Result<()> {
        string::skip(self.source)?;
        let ranges = string::read_len(self.source)?;
        (0..ranges).try_for_each(|_| self.pass_lens(2))
    }

    /// A name and what it is: only the time is of use.
    fn aux(&mut self) -> Result<()> {
        let mut text = Vec::new();
        let is_time =
            string::read_short(self.source, AUX_MAX, &mut self.name)? && self.name == b"ctime";
        if string::read_short(self.source, AUX_MAX, &mut text)? && is_time {
            let seconds = std::str::from_utf8(&text)
                .ok()
                .and_then(|text| text.parse().ok());
            self.contents.time = seconds.map(|seconds: u64| seconds.saturating_mul(1000));
        }
        Ok(())
    }

    /// A library: they are given together, at the end.
    fn function(&mut self) -> Result<()> {
        let at = self.source.offset();
        let left = LIBRARIES_MAX.saturating_sub(self.functions_size);
        let mut text = Vec::new();
        let is_one_too_many = self.functions.len() >= LIBRARIES_COUNT_MAX;
        if is_one_too_many || !string::read_short(self.source, left, &mut text)? {
            let what = format!(
                "libraries of functions of more than {LIBRARIES_MAX} bytes, or more than \
                 {LIBRARIES_COUNT_MAX} of them"
            );
            return Err(foreign(at, what));
        }
        self.functions_size += text.len();
        self.functions.push(text);
        self.contents.functions += 1;
        Ok(())
    }

    fn give_functions(&mut self) -> Result<()> {
        if self.functions.is_empty() {
            return Ok(());
        }
        let value = functions::encode(self.functions.iter().map(Vec::as_slice));
        self.sink.key(&Key {
            name: bpfdb::FUNCTIONS_KEY,
            kind: ValueType::STRING,
            len: value.len() as u64,
            expires_at: None,
        })?;
        self.sink.part(&value)
    }

    /// A key with a value of the type with this number.
    fn key(&mut self, number: u8, what: What) -> Result<()> {
        let at = self.source.offset();
        let len = string::read_beginning(self.source, KEY_MAX, &mut self.name)?;
        let expires_at = self.expires_at.take();
        let Some(database) = self.target() else {
            self.contents.other_databases += 1;
            return self.pass(number);
        };
        if let What::Other(name) = what {
            self.contents.count_other(&self.name, name);
            return self.pass(number);
        }
        // Functions come as such. A key of that name is no client's of ours, and might be anybody's in
        // Redis.
        if bpfdb::is_reserved(&self.name) {
            self.contents.reserved += 1;
            return self.pass(number);
        }
        if len > database.key_max() as u64 {
            let long = LongKey::new(&self.name, len, self.database);
            if !self.choice.skip_long_keys {
                return Err(foreign(at, format!("a key that is too long: {long}")));
            }
            self.contents.count_long(long);
            return self.pass(number);
        }
        self.name = database.stored(&self.name).into_owned();
        match what {
            What::Collection(kind) => self.collection(number, kind, expires_at),
            What::Stream => self.stream(number, expires_at),
            What::String | What::Other(_) => self.string(expires_at),
        }
    }

    /// The database that takes keys of the one that the file is at; `None`: they are left out.
    fn target(&self) -> Option<Database> {
        match self.choice.database {
            Some(wanted) => (wanted == self.database).then(Database::default),
            None => Database::new(usize::try_from(self.database).ok()?),
        }
    }

    fn pass(&mut self, number: u8) -> Result<()> {
        if number == TYPE_STRING {
            return string::skip(self.source);
        }
        skip::value(self.source, self.dialect, number)
    }

    fn string(&mut self, expires_at: Option<u64>) -> Result<()> {
        let at = self.source.offset();
        let head = string::read_head(self.source)?;
        if head.len > VALUE_MAX {
            let what = format!("a value of {} bytes; bpfdb has up to {VALUE_MAX}", head.len);
            return Err(foreign(at, what));
        }
        let key = Key {
            name: &self.name,
            kind: ValueType::STRING,
            len: head.len,
            expires_at,
        };
        self.contents.count(&key);
        self.sink.key(&key)?;
        let sink = &mut *self.sink;
        string::read_body(self.source, &head, |part| sink.part(part))
    }

    fn stream(&mut self, number: u8, expires_at: Option<u64>) -> Result<()> {
        let bytes = stream::read(self.source, number)?;
        let key = Key {
            name: &self.name,
            kind: ValueType::STREAM,
            len: bytes.len() as u64,
            expires_at,
        };
        self.contents.count(&key);
        self.sink.key(&key)?;
        self.sink.part(&bytes)
    }

    fn collection(&mut self, number: u8, kind: Kind, expires_at: Option<u64>) -> Result<()> {
        let run = match collection::read::read(self.source, self.dialect, number)? {
            Collection::Run(run) => run,
            // Redis says so, too, and goes on.
            Collection::Empty => return Ok(()),
            Collection::Expiring => {
                self.contents.count_other(&self.name, EXPIRING_HASH);
                return Ok(());
            }
        };
        let key = Key {
            name: &self.name,
            kind: type_of(kind),
            len: run.len() as u64,
            expires_at,
        };
        self.contents.count(&key);
        self.sink.key(&key)?;
        self.sink.part(&run)
    }
}

/// What is not positive is long over.
fn time_of(milliseconds: i64) -> u64 {
    u64::try_from(milliseconds).unwrap_or_default().max(1)
}
