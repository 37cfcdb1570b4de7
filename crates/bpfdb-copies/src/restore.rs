//! From a file into an engine.
//!
//! ```text
//! verify: read all of it ──► refuse, or ──► flush, if asked for ──► read it again, and write
//! ```
//!
//! Invariants
//!  1. Nothing is written, or deleted, before the whole file was found to be right.
//!  2. Both times the same open file is read, and its checksums are compared.
//!  3. Each key is written by a transaction of its own, whole. Others see a part of the keys
//!     until the end; if something fails, the error says how many were written.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::Path;

use bpfdb::{Database, Engine, Session};

use crate::error::{Error, Result, io};
use crate::format::{Format, read};
use crate::loader::{Found, Loaded, Loader, flush, look};
use crate::sink::{Choice, Contents, Key, Sink};
use crate::snapshot::Progress;

/// What becomes of keys that the database has already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// If there is one, whichever it is, nothing is done.
    #[default]
    Refuse,
    /// Those of the file take their place; others stay.
    Replace,
    /// All are deleted first.
    Flush,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub existing: Existing,
    /// Leaves out keys of types that bpfdb does not have, instead of refusing the file.
    pub skip_other_types: bool,
    /// Leaves out keys that are longer than the engine has room for, instead of refusing the file.
    pub skip_long_keys: bool,
    /// Takes the keys of this database into database 0, and leaves out those of others; `None`: each
    /// into its own, and a file with keys in others than there can be is refused.
    pub database: Option<u64>,
}

/// A file that is right, all of it.
#[derive(Debug)]
pub struct VerifiedCopy {
    file: File,
    form: Format,
    contents: Contents,
    options: Options,
}

impl VerifiedCopy {
    /// Opens and reads the file.
    ///
    /// # Errors
    /// [`Error::Refused`] if these options do not allow to use it; others if it is not right.
    pub fn open(path: &Path, options: Options) -> Result<Self> {
        Self::open_watched(path, options, &mut |_| Ok(()))
    }

    /// The same. `progress` gets the number of keys that were read, and may end it.
    ///
    /// # Errors
    /// As above; those of `progress`.
    pub fn open_watched(path: &Path, options: Options, progress: Progress<'_>) -> Result<Self> {
        let open = || io(format!("open {}", path.display()));
        let file = File::open(path).map_err(open())?;
        if !file.metadata().map_err(open())?.is_file() {
            return Err(Error::Refused(
                "only a file can be read twice: write what a pipe brings to one".into(),
            ));
        }
        let mut nowhere = Watched::new(progress);
        // To say how many there are, also where they are a reason to refuse the file.
        let all = Choice {
            skip_long_keys: true,
            ..options.choice()
        };
        let (form, contents) = read(&file, all, &mut nowhere)?;
        options.allow(form, &contents)?;
        Ok(Self {
            file,
            form,
            contents,
            options,
        })
    }

    pub fn form(&self) -> Format {
        self.form
    }

    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Writes what the file has into `engine`, this process's or one that it is attached to.
    ///
    /// # Errors
    /// [`Error::Refused`]: nothing was done. [`Error::Unfinished`] says how many keys were
    /// written, [`Error::Flushing`] how many were deleted before. Another one: none was.
    pub fn load(&mut self, engine: &Engine, progress: Progress<'_>) -> Result<Loaded> {
        (self.file.seek(SeekFrom::Start(0))).map_err(io("read the file again"))?;
        let mut session = engine.session()?;
        match self.options.existing {
            Existing::Refuse => refuse_what_is_there(&mut session)?,
            Existing::Replace => {}
            Existing::Flush => flush(&mut session, progress)?,
        }
        let mut loader = Loader::new(engine, session, progress)?;
        let outcome =
            read(&self.file, self.options.choice(), &mut loader).and_then(|_| loader.finish());
        let loaded = loader.loaded();
        match outcome {
            Ok(()) => Ok(loaded),
            Err(cause) => Err(Error::Unfinished {
                written: loaded.written,
                cause: Box::new(cause),
            }),
        }
    }
}

/// Functions are data too. They are counted apart, because no command shows them as keys.
fn refuse_what_is_there(session: &mut Session) -> Result<()> {
    let what = match look(session)? {
        Found::Nothing => return Ok(()),
        Found::Keys => "keys; --replace lets those of the file take their place",
        Found::Functions => "functions; --replace lets those of the file take their place",
    };
    Err(Error::Refused(format!(
        "the database has {what}, --flush deletes all before"
    )))
}

/// Takes everything and keeps nothing. A callback gets now and then how many keys there were, and
/// may end it.
struct Watched<'a> {
    progress: Progress<'a>,
    keys: u64,
    /// Bytes of keys and values.
    taken: u64,
    /// Bytes of the file.
    passed: u64,
    /// Of both together, at the last report.
    told: u64,
}

impl<'a> Watched<'a> {
    /// Between two words: milliseconds of reading.
    const BYTES: u64 = 1 << 20;

    fn new(progress: Progress<'a>) -> Self {
        Self {
            progress,
            keys: 0,
            taken: 0,
            passed: 0,
            told: 0,
        }
    }

    fn tell(&mut self) -> Result<()> {
        let all = self.taken + self.passed;
        if all - self.told < Self::BYTES {
            return Ok(());
        }
        self.told = all;
        (self.progress)(self.keys)
    }
}

impl Sink for Watched<'_> {
    fn passed(&mut self, offset: u64) -> Result<()> {
        self.passed = offset;
        self.tell()
    }

    fn key(&mut self, key: &Key<'_>) -> Result<()> {
        if bpfdb::is_of_ordered_table(key.name) {
            return Err(Error::Refused(
                "the file has keys of ordered tables, which come with their index only".into(),
            ));
        }
        self.keys += 1;
        self.taken += key.name.len() as u64;
        self.tell()
    }

    fn part(&mut self, bytes: &[u8]) -> Result<()> {
        self.taken += bytes.len() as u64;
        self.tell()
    }
}

impl Options {
    fn choice(&self) -> Choice {
        Choice {
            database: self.database,
            skip_long_keys: self.skip_long_keys,
        }
    }

    /// May a file of this form, with these contents, be used?
    fn allow(&self, form: Format, contents: &Contents) -> Result<()> {
        if self.database.is_some() && form != Format::Rdb {
            return Err(Error::Refused(
                "databases are chosen of a file of Redis only".into(),
            ));
        }
        if !self.skip_other_types && !contents.other_types.is_empty() {
            let types = contents.other_types.iter();
            let types: Vec<String> = types.map(|(name, n)| format!("{n} of {name}")).collect();
            let first = contents.first_other.as_ref();
            let first = first.map(|(key, name)| format!("; the first is the {name} \"{key}\""));
            return Err(Error::Refused(format!(
                "the file has keys of types that bpfdb does not have ({}{}); --skip-other-types \
                 leaves them out",
                types.join(", "),
                first.unwrap_or_default()
            )));
        }
        if let Some(first) = contents.first_long.first()
            && !self.skip_long_keys
        {
            return Err(Error::Refused(format!(
                "the file has {} keys that are too long (the first is {first}); --skip-long-keys \
                 leaves them out",
                contents.long_keys
            )));
        }
        if self.database.is_none() && contents.other_databases > 0 {
            return Err(Error::Refused(format!(
                "the file has {} keys in databases beyond {}, the last one here; --database N takes \
                 those of one into database 0",
                contents.other_databases,
                Database::COUNT - 1
            )));
        }
        let left_out = contents.other_databases + contents.reserved + contents.long_keys;
        let left_out = left_out + contents.other_types.values().sum::<u64>();
        // Functions are of no database: a caller that names one wants its keys.
        let wants_keys = contents.functions == 0 || self.database.is_some();
        if contents.keys == 0 && wants_keys && left_out > 0 {
            return Err(Error::Refused(format!(
                "of the {left_out} keys of the file none would be taken"
            )));
        }
        Ok(())
    }
}

/// Fills an engine that has no keys with those of a file of Redis. What else the file has
/// is an error.
pub fn load_rdb(engine: &Engine, path: &Path) -> Result<Loaded> {
    VerifiedCopy::open(path, Options::default())?.load(engine, &mut |_| Ok(()))
}
