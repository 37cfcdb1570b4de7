//! The way from the root to a leaf, for any way to read blocks.

use crate::block::{Block, Bytes, Entry, seed};
use crate::error::{Result, damaged};
use crate::table::Table;

/// A look-up between two reads. Its owner reads the block at [`Walk::offset`], and gives it to
/// [`Walk::step`].
#[derive(Clone, Copy, Debug)]
pub struct Walk<'a> {
    table: &'a Table,
    key: &'a [u8],
    number: u64,
    level: u32,
}

/// What a block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'b> {
    /// The next block is to be read.
    Read,
    /// The value of the key, if it has one.
    Found(Option<&'b [u8]>),
}

impl<'a> Walk<'a> {
    pub fn new(table: &'a Table, key: &'a [u8]) -> Self {
        let about = table.about();
        Self {
            table,
            key,
            number: about.root,
            level: about.depth - 1,
        }
    }

    /// The byte at which the block begins that is to be read: one of the size that
    /// [`About::block_size`](crate::About::block_size) says.
    pub fn offset(&self) -> u64 {
        self.table.offset(self.number)
    }

    /// The number of the block that is to be read.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn level(&self) -> u32 {
        self.level
    }

    pub(crate) fn is_at_leaf(&self) -> bool {
        self.level == 0
    }

    /// Goes on from the block that was read.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged): it is not the block that was written there.
    pub fn step<'b>(&mut self, block: &'b [u8]) -> Result<Step<'b>> {
        let checked = Block::check(block, seed(self.table.about().id, self.number), self.level);
        Ok(match self.go_on(checked)? {
            Next::Read => Step::Read,
            Next::Found(entry) => Step::Found(entry.map(|entry| &block[entry.value])),
        })
    }

    /// The same from a block that was checked when it was read.
    pub(crate) fn step_known(&mut self, block: impl Bytes) -> Result<Next> {
        self.go_on(Block::of_level(block, self.level))
    }

    fn go_on<B: Bytes>(&mut self, block: Result<Block<B>, &'static str>) -> Result<Next> {
        let wrong = |what| damaged(self.table.path(), self.offset(), what);
        let about = self.table.about();
        let block = block.map_err(wrong)?;
        if self.level == 0 {
            return Ok(Next::Found(block.find(self.key)));
        }
        // Children are in front of their parent: so it ends, whatever the file has.
        let child = block.child(self.key);
        let is_leaf = self.level == 1;
        if child == 0 || child >= self.number || (is_leaf && child > about.leaves) {
            return Err(wrong("a child that is none"));
        }
        self.number = child;
        self.level -= 1;
        Ok(Next::Read)
    }
}

/// [`Step`] with the place of the entry.
#[derive(Debug)]
pub(crate) enum Next {
    Read,
    Found(Option<Entry>),
}
