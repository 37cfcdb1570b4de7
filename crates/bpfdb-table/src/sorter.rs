//! Sorts entries that do not come in order, with bounded memory.
//!
//! Entries are kept until they fill the memory; then they are sorted, and written to a file that has no
//! name: a *run*. In the end all runs are merged. If there are many, they are merged into one before, so
//! that few files are open.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, io, shown};

/// Runs at the same time.
const RUNS_MAX: usize = 64;
/// Bytes of an entry besides key and value, about.
const OVERHEAD: usize = 48;

type Entry = (Box<[u8]>, Box<[u8]>);

/// Takes entries in any order.
#[derive(Debug)]
pub struct Sorter {
    folder: PathBuf,
    /// Bytes of entries that are kept, at most.
    memory: usize,
    entries: Vec<Entry>,
    bytes: usize,
    runs: Vec<File>,
}

impl Sorter {
    /// `memory`: bytes of entries that are kept at most. `folder`: where files are made when there are
    /// more; they have no names, and are gone with the process.
    pub fn new(folder: &Path, memory: usize) -> Self {
        Self {
            folder: folder.into(),
            memory,
            entries: Vec::new(),
            bytes: 0,
            runs: Vec::new(),
        }
    }

    /// # Errors
    /// [`Error::Io`]: a file cannot be written.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.bytes += key.len() + value.len() + OVERHEAD;
        self.entries.push((key.into(), value.into()));
        if self.bytes < self.memory {
            return Ok(());
        }
        self.spill()
    }

    fn spill(&mut self) -> Result<()> {
        let mut entries = std::mem::take(&mut self.entries);
        self.bytes = 0;
        entries.sort_unstable();
        let mut run = self.run()?;
        for (key, value) in entries {
            write(&mut run, &key, &value)?;
        }
        self.runs.push(whole(run)?);
        if self.runs.len() < RUNS_MAX {
            return Ok(());
        }
        let mut merged = self.run()?;
        let mut merge = Merge::new(std::mem::take(&mut self.runs))?;
        while let Some((key, value)) = merge.next()? {
            write(&mut merged, &key, &value)?;
        }
        self.runs.push(whole(merged)?);
        Ok(())
    }

    fn run(&self) -> Result<BufWriter<File>> {
        let file = tempfile::tempfile_in(&self.folder);
        let file = file.map_err(io(format!("make a file in {}", self.folder.display())))?;
        Ok(BufWriter::with_capacity(1 << 18, file))
    }

    /// All entries, in the order of their keys.
    ///
    /// # Errors
    /// [`Error::Io`]: a file cannot be written or read.
    pub fn finish(mut self) -> Result<Sorted> {
        if self.runs.is_empty() {
            self.entries.sort_unstable();
            let entries = self.entries.into_iter();
            return Ok(Sorted::of(Origin::Memory(entries)));
        }
        self.spill()?;
        Ok(Sorted::of(Origin::Runs(Merge::new(self.runs)?)))
    }
}

/// Entries in the order of their keys.
#[derive(Debug)]
pub struct Sorted {
    origin: Origin,
    /// The last key that was given.
    last: Option<Box<[u8]>>,
}

#[derive(Debug)]
enum Origin {
    Memory(std::vec::IntoIter<Entry>),
    Runs(Merge),
}

impl Sorted {
    fn of(origin: Origin) -> Self {
        Self { origin, last: None }
    }

    /// The next key and its value.
    ///
    /// # Errors
    /// [`Error::Twice`]: a key came twice. [`Error::Io`]: a file cannot be read.
    pub fn next_entry(&mut self) -> Result<Option<Entry>> {
        let next = match &mut self.origin {
            Origin::Memory(entries) => entries.next(),
            Origin::Runs(merge) => merge.next()?,
        };
        let Some((key, value)) = next else {
            return Ok(None);
        };
        if self.last.as_ref() == Some(&key) {
            return Err(Error::Twice { key: shown(&key) });
        }
        self.last = Some(key.clone());
        Ok(Some((key, value)))
    }
}

/// Runs, and the least entry of each.
#[derive(Debug)]
struct Merge {
    runs: Vec<BufReader<File>>,
    heads: BinaryHeap<Reverse<(Entry, usize)>>,
}

impl Merge {
    fn new(files: Vec<File>) -> Result<Self> {
        let mut runs: Vec<_> = files
            .into_iter()
            .map(|file| BufReader::with_capacity(1 << 16, file))
            .collect();
        let mut heads = BinaryHeap::new();
        for (index, run) in runs.iter_mut().enumerate() {
            heads.extend(read(run)?.map(|entry| Reverse((entry, index))));
        }
        Ok(Self { runs, heads })
    }

    fn next(&mut self) -> Result<Option<Entry>> {
        let Some(mut head) = self.heads.peek_mut() else {
            return Ok(None);
        };
        let Reverse((entry, run)) = &mut *head;
        let given = match read(&mut self.runs[*run])? {
            Some(next) => std::mem::replace(entry, next),
            None => PeekMut::pop(head).0.0,
        };
        Ok(Some(given))
    }
}

fn write(run: &mut impl Write, key: &[u8], value: &[u8]) -> Result<()> {
    let lengths = [key.len(), value.len()].map(|len| (len as u32).to_le_bytes());
    for part in [&lengths[0], &lengths[1], key, value] {
        run.write_all(part).map_err(io("write what is sorted"))?;
    }
    Ok(())
}

fn whole(run: BufWriter<File>) -> Result<File> {
    let file = run.into_inner();
    let mut file = file.map_err(|error| io("write what is sorted")(error.into_error()))?;
    file.rewind().map_err(io("read what is sorted"))?;
    Ok(file)
}

fn read(run: &mut impl Read) -> Result<Option<Entry>> {
    let mut lengths = [0; 8];
    match run.read_exact(&mut lengths) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read.map_err(io("read what is sorted"))?,
    }
    let [key_len, value_len] = [&lengths[..4], &lengths[4..]]
        .map(|len| u32::from_le_bytes(len.try_into().expect("four bytes")) as usize);
    let mut key = vec![0; key_len].into_boxed_slice();
    let mut value = vec![0; value_len].into_boxed_slice();
    for part in [&mut key, &mut value] {
        run.read_exact(part).map_err(io("read what is sorted"))?;
    }
    Ok(Some((key, value)))
}
