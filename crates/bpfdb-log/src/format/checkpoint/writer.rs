//! Writes a checkpoint, from its first byte to its last. It counts for nothing until the control
//! file names it: a crash, or an error, leaves a file that the next owner removes.

use std::io;

use super::Mark;
use super::block::{self, BlockHeader, BlockKind, PAYLOAD_MAX, VALUE_MAX};
use super::file::{FOLDER, Footer, Header, name, part_name};
use crate::disk::buffer::AlignedBuffer;
use crate::disk::{Disk, DiskFile};
use crate::error::{Result, StepError, flush_step, step};
use crate::format::form::ValueType;
use crate::format::layout::BLOCK;
use crate::format::record::{self, Entry, Value};

/// A checkpoint that is being written.
pub struct CheckpointWriter<D: Disk> {
    disk: D,
    header: Header,
    name: String,
    file: D::File,
    offset: u64,
    /// As long as the longest block. Its payload grows behind the header's place.
    block: AlignedBuffer,
    payload: usize,
    block_entries: u32,
    blocks: u64,
    entries: u64,
}

/// A checkpoint whose file is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenCheckpoint {
    pub mark: Mark,
    /// No segment before this is needed with it.
    pub first_segment: u64,
    pub entries: u64,
    /// Of the file.
    pub bytes: u64,
    /// Nanoseconds of UNIX time at which it was complete.
    pub wall: u64,
}

impl<D: Disk> CheckpointWriter<D> {
    /// Begins the file. One with the same number that was not finished is replaced.
    ///
    /// # Errors
    /// [`crate::LogError::Full`], [`crate::LogError::Io`].
    ///
    /// # Panics
    /// If the placement is too long.
    pub fn create(disk: D, header: Header) -> Result<Self> {
        let name = part_name(header.number);
        let file = create(&disk, &name).map_err(step("create", &name))?;
        let first = AlignedBuffer::from(&header.encode()[..]);
        let written = file.write_whole(0, &first);
        written.map_err(step("write", &name))?;
        Ok(Self {
            disk,
            header,
            name,
            file,
            offset: BLOCK as u64,
            block: AlignedBuffer::zeroed(block::SIZE_MAX),
            payload: 0,
            block_entries: 0,
            blocks: 0,
            entries: 0,
        })
    }

    /// Bytes that were written so far.
    pub fn bytes(&self) -> u64 {
        self.offset + self.payload as u64
    }

    /// Adds whole entries, encoded one behind the other: up to [`PAYLOAD_MAX`] bytes of them.
    /// None of them names a large value, or has one that is longer than [`VALUE_MAX`].
    ///
    /// # Errors
    /// As those of [`CheckpointWriter::create`]: this checkpoint is over.
    ///
    /// # Panics
    /// If there are too many.
    pub fn add(&mut self, entries: &[u8], count: u32) -> Result<()> {
        if self.payload + entries.len() > PAYLOAD_MAX {
            self.write_block(BlockKind::Entries)?;
        }
        self.put(entries);
        self.block_entries += count;
        Ok(())
    }

    /// Adds an entry with a string of any length.
    ///
    /// # Errors
    /// As above.
    pub fn add_entry(&mut self, key: &[u8], value: &[u8], expires: Option<u64>) -> Result<()> {
        self.add_typed(key, ValueType::STRING, value, expires)
    }

    /// Adds an entry with a value of this type and of any length; at least one byte if it is no
    /// string.
    ///
    /// # Errors
    /// As above.
    pub fn add_typed(
        &mut self,
        key: &[u8],
        kind: ValueType,
        value: &[u8],
        expires: Option<u64>,
    ) -> Result<()> {
        if value.len() > VALUE_MAX {
            return self.add_large(key, kind, value, expires);
        }
        let value = match kind {
            ValueType::STRING => Value::Inline(value),
            kind => Value::Typed(kind, value),
        };
        self.add_one(key, value, expires)
    }

    fn add_one(&mut self, key: &[u8], value: Value<'_>, expires: Option<u64>) -> Result<()> {
        let entry = Entry {
            key,
            value,
            expires,
        };
        let mut bytes = Vec::new();
        record::encode_entry(&entry, &mut bytes);
        self.add(&bytes, 1)
    }

    fn add_large(
        &mut self,
        key: &[u8],
        kind: ValueType,
        value: &[u8],
        expires: Option<u64>,
    ) -> Result<()> {
        let len = value.len() as u64;
        let entry = Entry {
            key,
            value: Value::Large { kind, id: 0, len },
            expires,
        };
        let mut bytes = Vec::new();
        record::encode_entry(&entry, &mut bytes);
        self.write_block(BlockKind::Entries)?;
        self.put(&bytes);
        self.block_entries = 1;
        self.write_block(BlockKind::Large)?;
        for part in value.chunks(PAYLOAD_MAX) {
            self.put(part);
            self.write_block(BlockKind::LargeBytes)?;
        }
        Ok(())
    }

    /// Completes the file and makes it durable. `end`: all that was read for it has a timestamp
    /// up to this. `wall`: nanoseconds of UNIX time.
    ///
    /// # Errors
    /// As above.
    pub fn finish(mut self, end: u64, wall: u64) -> Result<WrittenCheckpoint> {
        self.write_block(BlockKind::Entries)?;
        let footer = Footer {
            log: self.header.log,
            number: self.header.number,
            end,
            entries: self.entries,
            blocks: self.blocks,
            bytes: self.offset,
            wall,
        };
        let last = AlignedBuffer::from(&footer.encode()[..]);
        let written = self.file.write_whole(self.offset, &last);
        written.map_err(step("write", &self.name))?;
        self.file.flush().map_err(flush_step(&self.name))?;
        self.publish()?;
        Ok(WrittenCheckpoint {
            mark: Mark {
                number: self.header.number,
                start: self.header.start,
                end,
            },
            first_segment: self.header.first_segment,
            entries: self.entries,
            bytes: self.offset + BLOCK as u64,
            wall,
        })
    }

    /// Gives the file its name, durably.
    fn publish(&self) -> Result<(), StepError> {
        let to = name(self.header.number);
        let renamed = self.disk.rename(&self.name, &to);
        renamed.map_err(step("rename", &self.name))?;
        self.disk.flush_folder(FOLDER).map_err(flush_step(FOLDER))
    }

    fn put(&mut self, bytes: &[u8]) {
        let start = block::HEADER + self.payload;
        self.block[start..start + bytes.len()].copy_from_slice(bytes);
        self.payload += bytes.len();
    }

    /// Writes what there is, if there is anything.
    fn write_block(&mut self, kind: BlockKind) -> Result<(), StepError> {
        if self.payload == 0 {
            return Ok(());
        }
        let header = BlockHeader {
            payload: self.payload,
            log: self.header.log,
            number: self.header.number,
            sequence: self.blocks + 1,
            kind,
            entries: self.block_entries,
        };
        let size = header.size();
        header.seal(&mut self.block[..size]);
        let written = self.file.write_whole(self.offset, &self.block[..size]);
        written.map_err(step("write", &self.name))?;
        self.offset += size as u64;
        self.blocks += 1;
        self.entries += u64::from(self.block_entries);
        self.payload = 0;
        self.block_entries = 0;
        Ok(())
    }
}

fn create<D: Disk>(disk: &D, name: &str) -> io::Result<D::File> {
    match disk.create(name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.remove(name)?;
            disk.create(name)
        }
        file => file,
    }
}
