//! The strings of a database, of a snapshot or of a copy.

use std::fs::File;
use std::path::Path;

use bpfdb::{Database, ValueType};
use bpfdb_copies::{Choice, Key, Progress, Sink, Snapshot};

use super::loader::Loader;
use crate::error::{Error, Result, io};
use crate::writer::check_room;

/// Which keys become entries. Keys lose nothing of their beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    pub database: Database,
    /// What they begin with.
    pub prefix: Vec<u8>,
}

/// What has become of the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Keys that are entries.
    pub strings: u64,
    /// Keys that would be, if their values were strings.
    pub others: u64,
}

struct Strings<'a> {
    chosen: &'a Chosen,
    loader: &'a mut Loader,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Bytes of the value that are to come; `None`: it is not wanted.
    left: Option<u64>,
    exported: Exported,
    failed: Option<Error>,
}

/// Gives the strings that a snapshot sees to `loader`.
///
/// # Errors
/// Those of [`Loader::push`] and of [`Snapshot::copy_to`].
pub fn export(
    snapshot: Snapshot,
    chosen: &Chosen,
    loader: &mut Loader,
    progress: Progress<'_>,
) -> Result<Exported> {
    Strings::collect(chosen, loader, |sink| {
        snapshot.copy_to(sink, progress).map(drop)
    })
}

/// The same of a file: a copy of any form, or one of Redis.
///
/// # Errors
/// Those of [`Loader::push`] and of [`bpfdb_copies::read`].
pub fn read_copy(path: &Path, chosen: &Chosen, loader: &mut Loader) -> Result<Exported> {
    let file = File::open(path).map_err(io(format!("open {}", path.display())))?;
    Strings::collect(chosen, loader, |sink| {
        bpfdb_copies::read(file, Choice::default(), sink).map(drop)
    })
}

impl<'a> Strings<'a> {
    fn collect(
        chosen: &'a Chosen,
        loader: &'a mut Loader,
        read: impl FnOnce(&mut dyn Sink) -> bpfdb_copies::Result<()>,
    ) -> Result<Exported> {
        let mut strings = Self {
            chosen,
            loader,
            key: Vec::new(),
            value: Vec::new(),
            left: None,
            exported: Exported::default(),
            failed: None,
        };
        let outcome = read(&mut strings);
        match strings.failed {
            Some(failed) => Err(failed),
            None => outcome.map(|()| strings.exported).map_err(Error::from),
        }
    }

    /// The sink's error only ends the reading; what it was is kept.
    fn keep(&mut self, outcome: Result<()>) -> bpfdb_copies::Result<()> {
        outcome.map_err(|error| {
            self.failed = Some(error);
            bpfdb_copies::Error::Interrupted
        })
    }

    fn end_if_whole(&mut self) -> bpfdb_copies::Result<()> {
        if self.left != Some(0) {
            return Ok(());
        }
        self.left = None;
        self.exported.strings += 1;
        let pushed = self.loader.push(&self.key, &self.value);
        self.keep(pushed)
    }
}

impl Sink for Strings<'_> {
    fn key(&mut self, key: &Key<'_>) -> bpfdb_copies::Result<()> {
        self.left = None;
        let name = self.chosen.database.key_of(key.name);
        let Some(name) = name.filter(|name| name.starts_with(&self.chosen.prefix)) else {
            return Ok(());
        };
        if key.kind != ValueType::STRING {
            self.exported.others += 1;
            return Ok(());
        }
        // Before its value, which may be large.
        let checked = check_room(name, key.len, self.loader.block_size());
        self.keep(checked)?;
        self.key.clear();
        self.key.extend_from_slice(name);
        self.value.clear();
        self.left = Some(key.len);
        self.end_if_whole()
    }

    fn part(&mut self, bytes: &[u8]) -> bpfdb_copies::Result<()> {
        let Some(left) = self.left else {
            return Ok(());
        };
        self.value.extend_from_slice(bytes);
        self.left = Some(left.saturating_sub(bytes.len() as u64));
        self.end_if_whole()
    }
}
