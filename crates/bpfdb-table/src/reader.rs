//! Reads a table block by block, by the process: `pread()`. Every block is checked.

use std::os::unix::fs::FileExt;

use crate::aggregate::{Aggregate, Aggregation};
use crate::block::{Block, seed};
use crate::bounds::Bounds;
use crate::buffer::Buffer;
use crate::error::{Result, damaged, io};
use crate::field::Field;
use crate::table::Table;
use crate::walk::{Step, Walk};

/// Reads by one thread: it has memory for what it reads.
#[derive(Debug)]
pub struct Reader<'a> {
    table: &'a Table,
    buffer: Buffer,
}

impl<'a> Reader<'a> {
    pub fn new(table: &'a Table) -> Self {
        let buffer = Buffer::new();
        Self { table, buffer }
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), or [`Error::Damaged`](crate::Error::Damaged) with the byte at
    /// which the block begins.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut walk = Walk::new(self.table, key);
        loop {
            self.read(walk.number(), 1)?;
            let block = &self.buffer[..self.table.block_size()];
            if let Step::Found(value) = walk.step(block)? {
                return Ok(value.map(<[u8]>::to_vec));
            }
        }
    }

    /// The entries of a range, in the order of their keys.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn scan<'r>(&'r mut self, bounds: &'r Bounds<'r>) -> Result<Scan<'r, 'a>> {
        let leaf = self.descend(bounds.from)?;
        Ok(Scan {
            leaf,
            index: None,
            reader: self,
            bounds,
            has_read: 0..0,
        })
    }

    /// What is computed of the entries of a range, and of a field of theirs.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn aggregate(&mut self, bounds: &Bounds<'_>, field: Option<Field>) -> Result<Aggregate> {
        let mut aggregation = Aggregation::new(bounds, field);
        loop {
            if let Some(aggregate) = self.advance(&mut aggregation, usize::MAX)? {
                return Ok(aggregate);
            }
        }
    }

    /// The same in slices, each of about so many bytes of leaves; `None`: there is more to be looked at.
    ///
    /// # Errors
    /// As [`Reader::get`]. The aggregation is where it was.
    pub fn advance(
        &mut self,
        aggregation: &mut Aggregation,
        bytes: usize,
    ) -> Result<Option<Aggregate>> {
        let is_inside = aggregation.next.is_some();
        let first = match aggregation.next {
            Some(leaf) => leaf,
            None => self.descend(&aggregation.from)?,
        };
        let behind = self.table.about().leaves + 1;
        let end = (first + self.table.leaves_of(bytes)).min(behind);
        let (mut found, mut leaf, mut span) = (Aggregate::default(), first, 1);
        while leaf < end {
            let count = span.min(end - leaf);
            span = self.table.span();
            self.read(leaf, count as usize)?;
            for index in 0..count {
                let is_first = !is_inside && leaf + index == first;
                if self.add_leaf(leaf, index as usize, is_first, aggregation, &mut found)? {
                    return Ok(aggregation.note(&found, end, true));
                }
            }
            leaf += count;
        }
        Ok(aggregation.note(&found, end, end == behind))
    }

    /// Adds the entries of one of the leaves that were read; true: the range ends in it.
    fn add_leaf(
        &self,
        first: u64,
        index: usize,
        is_first: bool,
        aggregation: &Aggregation,
        found: &mut Aggregate,
    ) -> Result<bool> {
        let (leaf, bounds) = (self.leaf(first, index)?, aggregation.bounds());
        let begin = if is_first {
            leaf.before(bounds.from)
        } else {
            0
        };
        for index in begin..leaf.len() {
            let (key, value) = leaf.key_value(index);
            if !bounds.is_before_end(key) {
                return Ok(true);
            }
            found.add(aggregation.field.map(|field| field.read(value)));
        }
        Ok(false)
    }

    /// The number of the leaf that may have the key.
    fn descend(&mut self, key: &[u8]) -> Result<u64> {
        let mut walk = Walk::new(self.table, key);
        while !walk.is_at_leaf() {
            self.read(walk.number(), 1)?;
            walk.step(&self.buffer[..self.table.block_size()])?;
        }
        Ok(walk.number())
    }

    /// Reads blocks that lie one behind the other.
    fn read(&mut self, first: u64, count: usize) -> Result<()> {
        let bytes = &mut self.buffer[..count * self.table.block_size()];
        let read = self
            .table
            .file()
            .read_exact_at(bytes, self.table.offset(first));
        read.map_err(io(format!("read {}", self.table.path().display())))
    }

    /// One of the leaves that were read, from `first` on.
    fn leaf(&self, first: u64, index: usize) -> Result<Block<&[u8]>> {
        let size = self.table.block_size();
        let bytes = &self.buffer[index * size..(index + 1) * size];
        let number = first + index as u64;
        Block::check(bytes, seed(self.table.about().id, number), 0)
            .map_err(|what| damaged(self.table.path(), self.table.offset(number), what))
    }
}

/// A range that is being read.
#[derive(Debug)]
pub struct Scan<'r, 'a> {
    reader: &'r mut Reader<'a>,
    bounds: &'r Bounds<'r>,
    leaf: u64,
    /// In that leaf; `None`: it was not looked at.
    index: Option<usize>,
    /// Leaves in the reader's buffer.
    has_read: std::ops::Range<u64>,
}

impl Scan<'_, '_> {
    /// The next key and its value.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn next_entry(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        loop {
            let leaves = self.reader.table.about().leaves;
            if self.leaf > leaves {
                return Ok(None);
            }
            let is_first = self.has_read.is_empty();
            let is_new = self.index.is_none();
            if !self.has_read.contains(&self.leaf) {
                // Of a short range one leaf is enough.
                let span = if is_first {
                    1
                } else {
                    self.reader.table.span()
                };
                let end = (self.leaf + span).min(leaves + 1);
                self.reader.read(self.leaf, (end - self.leaf) as usize)?;
                self.has_read = self.leaf..end;
            }
            let at = (self.leaf - self.has_read.start) as usize;
            let (len, index) = {
                let block = match is_new {
                    true => self.reader.leaf(self.has_read.start, at)?,
                    false => self.reader.checked(at),
                };
                let first = || {
                    if is_first {
                        block.before(self.bounds.from)
                    } else {
                        0
                    }
                };
                (block.len(), self.index.unwrap_or_else(first))
            };
            if index < len {
                self.index = Some(index + 1);
                let (key, value) = self.reader.checked(at).key_value(index);
                if self.bounds.is_before_end(key) {
                    return Ok(Some((key, value)));
                }
                self.leaf = leaves + 1;
                return Ok(None);
            }
            self.leaf += 1;
            self.index = None;
        }
    }
}

impl Reader<'_> {
    /// A leaf that [`Reader::leaf`] has checked.
    fn checked(&self, index: usize) -> Block<&[u8]> {
        let size = self.table.block_size();
        Block::known(&self.buffer[index * size..(index + 1) * size])
    }
}
