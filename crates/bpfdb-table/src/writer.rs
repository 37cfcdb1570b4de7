//! Writes a table from entries in the order of their keys.
//!
//! Leaves are written first, one behind the other. The key at which a leaf begins is kept in a file without
//! a name; of these the blocks above are made, whose keys are kept in the same way, until there is one
//! block: the root. So the memory that is used does not depend on how many entries there are.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use bpfdb_copies::NewFile;

use crate::abi::{self, HEAD, KEY_MAX};
use crate::block::{Builder, seed};
use crate::error::{Error, Result, io, shown};
use crate::header::{About, is_block_size};

/// How a table is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a block: a power of two from 512 to 65,536.
    pub block_size: u32,
    /// Children that a block may have, 2 or more; 0: as many as there is room for.
    pub fanout: u32,
    /// Of the snapshot whose keys these are; 0 if there is none.
    pub timestamp: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            block_size: 4096,
            fanout: 0,
            timestamp: 0,
        }
    }
}

/// A table that is being written. It gets its name when it is complete and on the disk; until then an
/// older file of that name stays. If this is dropped before, nothing is left.
#[derive(Debug)]
pub struct Writer {
    file: NewFile,
    folder: PathBuf,
    about: About,
    leaf: Builder,
    keys: Keys,
    last: Vec<u8>,
    /// What the open leaf begins with, cut behind the first byte that differs from what is before.
    begins: Vec<u8>,
}

impl Writer {
    /// # Errors
    /// [`Error::Invalid`]: there can be no such table. [`Error::Io`], [`Error::Copy`]: the file cannot be made.
    pub fn create(path: &Path, options: &Options) -> Result<Self> {
        if !is_block_size(options.block_size as usize) {
            let text = "a block has 512 to 65,536 bytes, a power of two";
            return Err(Error::Invalid(text.into()));
        }
        if options.fanout == 1 {
            let text = "a block has at least two children";
            return Err(Error::Invalid(text.into()));
        }
        let mut id = [0; 8];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| io("get a random number")(error.into()))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let about = About {
            id: u64::from_le_bytes(id),
            block_size: options.block_size,
            fanout: options.fanout,
            timestamp: options.timestamp,
            time: now.map_or(0, |since| since.as_millis() as u64),
            blocks: 1,
            ..About::default()
        };
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let mut file = NewFile::create(path)?;
        write(&mut file, &about.header())?;
        Ok(Self {
            file,
            leaf: Builder::new(options.block_size as usize, 0),
            keys: Keys::new(&folder)?,
            folder,
            about,
            last: Vec::new(),
            begins: Vec::new(),
        })
    }

    /// The next entry: its key is greater than all before.
    ///
    /// # Errors
    /// [`Error::Order`], [`Error::Twice`], [`Error::KeyLength`], [`Error::ValueLength`], which name
    /// the key; nothing was added. [`Error::Io`]: the table cannot be completed.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check(key, value)?;
        if self.leaf.len() > 0 && !self.leaf.add_value(key, value) {
            self.end_leaf()?;
        } else if self.leaf.len() > 0 {
            self.count(key, value);
            return Ok(());
        }
        self.begins = self.separator(key);
        // An entry alone has room: `check`.
        self.leaf.add_value(key, value);
        self.count(key, value);
        Ok(())
    }

    fn count(&mut self, key: &[u8], value: &[u8]) {
        self.last.clear();
        self.last.extend_from_slice(key);
        self.about.entries += 1;
        self.about.key_bytes += key.len() as u64;
        self.about.value_bytes += value.len() as u64;
    }

    fn check(&self, key: &[u8], value: &[u8]) -> Result<()> {
        // A block above leaves has room for two children.
        let most = KEY_MAX.min(self.about.block_size as usize - HEAD - 8);
        if key.len() > most {
            return Err(Error::KeyLength {
                key: shown(key),
                len: key.len(),
                most,
            });
        }
        check_room(key, value.len() as u64, self.about.block_size)?;
        if self.about.entries == 0 || *key > *self.last {
            return Ok(());
        }
        if *key == *self.last {
            return Err(Error::Twice { key: shown(key) });
        }
        Err(Error::Order {
            before: shown(&self.last),
            key: shown(key),
        })
    }

    /// The shortest that is greater than the last key and not greater than this one.
    fn separator(&self, key: &[u8]) -> Vec<u8> {
        let same = key.iter().zip(&self.last).take_while(|(a, b)| a == b);
        let len = (same.count() + 1).min(key.len());
        key[..len].to_vec()
    }

    /// Writes a block, whose number is that of the next one.
    fn write_block(&mut self, builder: &mut Builder) -> Result<u64> {
        let number = self.about.blocks;
        write(&mut self.file, &builder.take(seed(self.about.id, number)))?;
        self.about.blocks += 1;
        Ok(number)
    }

    fn end_leaf(&mut self) -> Result<()> {
        let empty = Builder::new(self.about.block_size as usize, 0);
        let mut leaf = std::mem::replace(&mut self.leaf, empty);
        self.write_block(&mut leaf)?;
        self.leaf = leaf;
        self.about.leaves += 1;
        self.keys.push(&self.begins)
    }

    /// Completes the table, has it on the disk, and gives it its name.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Copy`]: there is no new table, or it has its name already.
    /// [`Error::Invalid`]: the tree would have too many levels.
    pub fn finish(mut self) -> Result<About> {
        if self.leaf.len() > 0 || self.about.leaves == 0 {
            self.end_leaf()?;
        }
        let (mut first, mut level) = (1, 0);
        while self.about.blocks - first > 1 {
            level += 1;
            if level == abi::BPFDB_TABLE_DEPTH_MAX {
                let text = "more than sixteen levels: a greater fan-out is needed";
                return Err(Error::Invalid(text.into()));
            }
            first = self.write_level(first, level as u16)?;
        }
        self.about.depth = level + 1;
        self.about.root = first;
        self.about.blocks += 1;
        write(&mut self.file, &self.about.footer())?;
        self.file.keep()?;
        Ok(self.about)
    }

    /// Writes the blocks above those from `first` on; the number of their first one.
    fn write_level(&mut self, mut child: u64, level: u16) -> Result<u64> {
        let first = self.about.blocks;
        let above = Keys::new(&self.folder)?;
        let mut keys = std::mem::replace(&mut self.keys, above).read()?;
        let mut block = Builder::new(self.about.block_size as usize, level);
        let fanout = match self.about.fanout {
            0 => usize::MAX,
            fanout => fanout as usize,
        };
        while let Some(key) = keys.next()? {
            if block.len() == fanout || !block.add_child(&key, child) {
                self.write_block(&mut block)?;
                block.add_child(&key, child);
            }
            if block.len() == 1 {
                self.keys.push(&key)?;
            }
            child += 1;
        }
        self.write_block(&mut block)?;
        Ok(first)
    }
}

/// Whether key and value have room in a block.
pub(crate) fn check_room(key: &[u8], len: u64, block_size: u32) -> Result<()> {
    let room = Builder::room(block_size as usize).saturating_sub(key.len());
    if len <= room as u64 && len <= u64::from(u16::MAX) {
        return Ok(());
    }
    Err(Error::ValueLength {
        key: shown(key),
        len,
        block: block_size as usize,
        most: room,
    })
}

fn write(file: &mut NewFile, block: &[u8]) -> Result<()> {
    file.write_all(block).map_err(io("write a table"))
}

/// Keys in a file that has no name.
#[derive(Debug)]
struct Keys(BufWriter<File>);

impl Keys {
    fn new(folder: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(folder);
        let file = file.map_err(io(format!("make a file in {}", folder.display())))?;
        Ok(Self(BufWriter::new(file)))
    }

    fn push(&mut self, key: &[u8]) -> Result<()> {
        let len = (key.len() as u16).to_le_bytes();
        let written = self.0.write_all(&len).and_then(|()| self.0.write_all(key));
        written.map_err(io("write keys"))
    }

    fn read(self) -> Result<KeysRead> {
        let file = self.0.into_inner();
        let mut file = file.map_err(|error| io("write keys")(error.into_error()))?;
        file.rewind().map_err(io("read keys"))?;
        Ok(KeysRead(BufReader::new(file)))
    }
}

struct KeysRead(BufReader<File>);

impl KeysRead {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let mut len = [0; 2];
        let got = self.0.read(&mut len[..1]).map_err(io("read keys"))?;
        if got == 0 {
            return Ok(None);
        }
        self.0.read_exact(&mut len[1..]).map_err(io("read keys"))?;
        let mut key = vec![0; u16::from_le_bytes(len).into()];
        self.0.read_exact(&mut key).map_err(io("read keys"))?;
        Ok(Some(key))
    }
}
