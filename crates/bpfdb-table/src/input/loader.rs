//! Entries in any order, to a table.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::header::About;
use crate::sorter::Sorter;
use crate::writer::{Options, Writer, check_room};

/// Sorts entries, with bounded memory, and writes a table of them.
#[derive(Debug)]
pub struct Loader {
    path: PathBuf,
    options: Options,
    sorter: Sorter,
}

impl Loader {
    /// `memory`: bytes of entries that are kept at most. If there are more, files without a name are made in
    /// the folder of the table.
    pub fn new(path: &Path, options: &Options, memory: usize) -> Self {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        Self {
            path: path.into(),
            options: *options,
            sorter: Sorter::new(folder, memory),
        }
    }

    /// # Errors
    /// [`Error::ValueLength`](crate::Error::ValueLength): it has no room in a block. [`Error::Io`](crate::Error::Io).
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_room(key, value.len() as u64, self.options.block_size)?;
        self.sorter.push(key, value)
    }

    pub(crate) fn block_size(&self) -> u32 {
        self.options.block_size
    }

    /// Writes the table, and gives it its name.
    ///
    /// # Errors
    /// As [`Writer::create`], [`Writer::push`] and [`Writer::finish`]; [`Error::Twice`](crate::Error::Twice).
    pub fn finish(self) -> Result<About> {
        let mut writer = Writer::create(&self.path, &self.options)?;
        let mut sorted = self.sorter.finish()?;
        while let Some((key, value)) = sorted.next_entry()? {
            writer.push(&key, &value)?;
        }
        writer.finish()
    }
}
