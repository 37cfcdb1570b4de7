//! Reads a checkpoint, block by block. What a block has is verified by the thread that takes it, perhaps
//! on another processor.

use std::sync::Arc;

use super::Mark;
use super::block::{self, BlockHeader, BlockKind};
use super::chunks::{Chunks, Part};
use super::file::{Footer, Header, name};
use crate::disk::{Disk, DiskFile};
use crate::error::{LogError, Result};
use crate::format::layout::{BLOCK, Invalid, LogId};
use crate::format::record::{Entries, Entry, Value};

/// A block as it was read. Its header is what it should be; the rest is not verified yet.
#[derive(Clone)]
pub struct RawBlock {
    pub header: BlockHeader,
    file: Arc<str>,
    offset: u64,
    bytes: Part,
}

/// What a block has.
#[derive(Clone, Debug)]
pub enum Contents<'a> {
    /// So many of them, with their values.
    Entries(Entries<'a>, u32),
    /// The bytes of its value follow.
    Large(Entry<'a>),
    LargeBytes(&'a [u8]),
}

impl RawBlock {
    /// Whether it belongs to a large value, which several blocks have.
    pub fn is_large(&self) -> bool {
        self.header.kind != BlockKind::Entries
    }

    /// # Errors
    /// [`LogError::Corrupt`].
    pub fn contents(&self) -> Result<Contents<'_>> {
        let payload = block::payload(&self.bytes).map_err(|why| self.corrupt(why))?;
        match self.header.kind {
            BlockKind::Entries => Ok(Contents::Entries(
                Entries::new(payload),
                self.header.entries,
            )),
            BlockKind::LargeBytes => Ok(Contents::LargeBytes(payload)),
            BlockKind::Large => {
                let entry = Entries::new(payload).next().unwrap_or(Err(Invalid::Short));
                entry.map(Contents::Large).map_err(|why| self.corrupt(why))
            }
        }
    }

    /// Says where the block is that is not what it should be.
    pub fn corrupt(&self, why: impl ToString) -> LogError {
        LogError::corrupt(&*self.file, self.offset, why)
    }
}

/// A checkpoint that is being read.
pub struct CheckpointReader<D: Disk> {
    chunks: Chunks<D::File>,
    name: Arc<str>,
    header: Header,
    footer: Footer,
    offset: u64,
    blocks: u64,
    entries: u64,
}

/// The header of a checkpoint.
///
/// # Errors
/// [`LogError::Corrupt`], [`LogError::Io`].
pub fn read_header<D: Disk>(disk: &D, number: u64) -> Result<Header> {
    let name = name(number);
    let file = open(disk, &name)?;
    let block = read_block(&file, &name, 0)?;
    Header::decode(&block).map_err(LogError::invalid(&*name, 0, "the checkpoint's header"))
}

/// Header and footer of a file that may be any.
///
/// # Errors
/// As above.
pub(crate) fn read_ends<D: Disk>(disk: &D, number: u64) -> Result<(Header, Footer)> {
    let header = read_header(disk, number)?;
    let name = name(number);
    let file = open(disk, &name)?;
    let size = file.size();
    let size = size.map_err(LogError::io("find the size of", &name))?;
    let last = size.saturating_sub(BLOCK as u64);
    let footer = Footer::decode(&read_block(&file, &name, last)?).map_err(LogError::invalid(
        &*name,
        last,
        "the checkpoint's footer",
    ))?;
    Ok((header, footer))
}

fn open<D: Disk>(disk: &D, name: &str) -> Result<D::File> {
    let file = disk.open(name).map_err(LogError::io("open", name))?;
    file.ok_or_else(|| missing(name))
}

fn missing(name: &str) -> LogError {
    LogError::corrupt(name, 0, "the checkpoint is missing")
}

fn read_block<F: DiskFile>(file: &F, name: &str, offset: u64) -> Result<[u8; BLOCK]> {
    let mut block = [0; BLOCK];
    let read = file.read_whole(offset, &mut block);
    match read.map_err(LogError::io("read", name))? {
        BLOCK => Ok(block),
        _ => Err(shorter(name, offset)),
    }
}

fn shorter(name: &str, offset: u64) -> LogError {
    LogError::corrupt(name, offset, "the file is shorter")
}

impl<D: Disk> CheckpointReader<D> {
    /// Opens the checkpoint that the control file of this log names.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] if it is not there, not complete or another one; [`LogError::Io`].
    pub fn open(disk: &D, log: LogId, mark: Mark) -> Result<Self> {
        let name = name(mark.number);
        let file = open(disk, &name)?;
        let size = file
            .size()
            .map_err(LogError::io("find the size of", &name))?;
        let first = read_block(&file, &name, 0)?;
        let header = Header::decode(&first)
            .and_then(|header| check_header(header, log, mark))
            .map_err(LogError::invalid(&*name, 0, "the checkpoint's header"))?;
        let last = size.saturating_sub(BLOCK as u64);
        let footer = Footer::decode(&read_block(&file, &name, last)?)
            .and_then(|footer| check_footer(footer, log, mark, last))
            .map_err(LogError::invalid(&*name, last, "the checkpoint's footer"))?;
        let scanned = disk
            .open_for_scan(&name)
            .map_err(LogError::io("open", &name))?;
        let scanned = scanned.ok_or_else(|| missing(&name))?;
        Ok(Self {
            chunks: Chunks::new(scanned, footer.bytes),
            name: name.into(),
            header,
            footer,
            offset: BLOCK as u64,
            blocks: 0,
            entries: 0,
        })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Bytes that were read so far.
    pub fn position(&self) -> u64 {
        self.offset
    }

    /// The next block; `None`: that was the last one.
    ///
    /// # Errors
    /// [`LogError::Corrupt`], [`LogError::Io`].
    pub fn next_block(&mut self) -> Result<Option<RawBlock>> {
        if self.offset == self.footer.bytes {
            return self.check_end().map(|()| None);
        }
        let head = self.part(BLOCK)?;
        let header = BlockHeader::peek(&head)
            .and_then(|header| self.check_block(header))
            .map_err(LogError::invalid(&*self.name, self.offset, "the block"))?;
        // Else its chunk could not be used again, if the block is in the next one.
        drop(head);
        let bytes = self.part(header.size())?;
        // Its beginning was read twice then, and the second time counts.
        if BlockHeader::peek(&bytes) != Ok(header) {
            return Err(LogError::corrupt(
                &*self.name,
                self.offset,
                "its header is another one when it is read again",
            ));
        }
        let block = RawBlock {
            header,
            file: self.name.clone(),
            offset: self.offset,
            bytes,
        };
        self.offset += header.size() as u64;
        self.blocks += 1;
        self.entries += u64::from(header.entries);
        Ok(Some(block))
    }

    /// So many bytes from here on.
    fn part(&mut self, len: usize) -> Result<Part> {
        let part = self.chunks.read(self.offset, len);
        let part = part.map_err(LogError::io("read", &*self.name))?;
        part.ok_or_else(|| shorter(&self.name, self.offset))
    }

    fn check_block(&self, header: BlockHeader) -> Result<BlockHeader, Invalid> {
        let expected = (self.header.log, self.header.number, self.blocks + 1);
        if (header.log, header.number, header.sequence) != expected {
            return Err(Invalid::Field("place in the checkpoint"));
        }
        match self.offset + header.size() as u64 <= self.footer.bytes {
            true => Ok(header),
            false => Err(Invalid::Field("length")),
        }
    }

    fn check_end(&self) -> Result<()> {
        if (self.blocks, self.entries) == (self.footer.blocks, self.footer.entries) {
            return Ok(());
        }
        let why = format!(
            "it has {} blocks with {} entries, its footer says {} and {}",
            self.blocks, self.entries, self.footer.blocks, self.footer.entries
        );
        Err(LogError::corrupt(&*self.name, self.offset, why))
    }

    /// Reads and verifies all that is left. For a check: recovery does it on several processors.
    ///
    /// # Errors
    /// As above.
    pub fn verify(&mut self) -> Result<()> {
        let mut missing = 0;
        while let Some(block) = self.next_block()? {
            let is_due = missing > 0;
            match block.contents()? {
                Contents::LargeBytes(bytes) if is_due && bytes.len() as u64 <= missing => {
                    missing -= bytes.len() as u64;
                }
                Contents::Entries(entries, count) if !is_due => {
                    verify_entries(&block, entries, count)?
                }
                Contents::Large(entry) if !is_due => missing = large_len(&block, &entry)?,
                _ => return Err(block.corrupt("it does not follow the block before it")),
            }
        }
        match missing {
            0 => Ok(()),
            _ => Err(LogError::corrupt(
                &*self.name,
                self.offset,
                "a large value is not whole",
            )),
        }
    }
}

/// Bytes of the value that the entry of a large one promises.
fn large_len(block: &RawBlock, entry: &Entry<'_>) -> Result<u64> {
    match entry.value {
        Value::Large { len, .. } if len > 0 => Ok(len),
        _ => Err(block.corrupt("it has an entry of another kind")),
    }
}

fn verify_entries(block: &RawBlock, entries: Entries<'_>, count: u32) -> Result<()> {
    let mut found = 0;
    for entry in entries {
        let entry = entry.map_err(|why| block.corrupt(why))?;
        if !matches!(entry.value, Value::Inline(_) | Value::Typed(..)) {
            return Err(block.corrupt("it has an entry of another kind"));
        }
        found += 1;
    }
    match found == count {
        true => Ok(()),
        false => Err(block.corrupt(format!("it has {found} entries instead of {count}"))),
    }
}

fn check_header(header: Header, log: LogId, mark: Mark) -> Result<Header, Invalid> {
    match (header.log, header.number, header.start) == (log, mark.number, mark.start) {
        true => Ok(header),
        false => Err(Invalid::Field("identity")),
    }
}

fn check_footer(footer: Footer, log: LogId, mark: Mark, at: u64) -> Result<Footer, Invalid> {
    match (footer.log, footer.number, footer.end, footer.bytes) == (log, mark.number, mark.end, at)
    {
        true => Ok(footer),
        false => Err(Invalid::Field("identity")),
    }
}
