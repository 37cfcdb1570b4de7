//! Which entries XTRIM and XADD remove from the beginning of a stream.

use super::block::{Block, Counts};
use super::blocks::Blocks;
use super::id::Id;
use super::{Stream, edge};

/// What stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// So many entries.
    Entries(u64),
    /// This one and those behind it.
    From(Id),
}

/// How a stream is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    pub keep: Keep,
    /// Whole blocks go, so some more entries may stay.
    pub is_approximate: bool,
    /// No more entries than so many go; 0: whatever it takes.
    pub limit: u64,
}

impl<B: Blocks> Stream<'_, B> {
    /// Removes entries; how many these were.
    ///
    /// # Errors
    /// Those of the blocks.
    pub fn trim(&mut self, trim: &Trim) -> Result<u64, B::Error> {
        let mut removed = 0;
        let is_short = |length| matches!(trim.keep, Keep::Entries(keep) if length <= keep);
        // No block is read if all entries stay.
        while !is_short(self.state.length)
            && let Some((id, entries, last)) = self.first_block(trim.keep)?
        {
            if trim.limit > 0 && removed + entries > trim.limit {
                break;
            }
            let goes = match trim.keep {
                Keep::Entries(keep) => self.state.length.saturating_sub(entries) >= keep,
                Keep::From(from) => last < from,
            };
            if goes {
                self.blocks.remove(id)?;
                self.state.length = self.state.length.saturating_sub(entries);
                removed += entries;
                continue;
            }
            if !trim.is_approximate {
                removed += self.trim_block(id, trim.keep)?;
            }
            break;
        }
        if removed > 0 || self.state.length == 0 {
            self.state.first = edge(&mut self.blocks, false)?.unwrap_or_default();
        }
        Ok(removed)
    }

    /// The first block, its entries, and its last one if that matters.
    fn first_block(&mut self, keep: Keep) -> Result<Option<(Id, u64, Id)>, B::Error> {
        let Some((id, bytes)) = self.blocks.first_from(Id::MIN)? else {
            return Ok(None);
        };
        let last = match keep {
            Keep::Entries(_) => id,
            Keep::From(_) => Block::read(id, &bytes)?.last(),
        };
        Ok(Some((id, Counts::read(&bytes)?.entries, last)))
    }

    /// Removes the first entries of a block that keeps others.
    fn trim_block(&mut self, id: Id, keep: Keep) -> Result<u64, B::Error> {
        let Some((_, bytes)) = self.blocks.first_from(id)? else {
            return Ok(0);
        };
        let bytes = bytes.into_owned();
        let block = Block::read(id, &bytes)?;
        let mut surplus = match keep {
            Keep::Entries(keep) => self.state.length.saturating_sub(keep),
            Keep::From(_) => u64::MAX,
        };
        let (trimmed, removed) = block.delete_where(bytes.clone(), |entry| {
            let goes = match keep {
                Keep::Entries(_) => surplus > 0,
                Keep::From(from) => entry.id < from,
            };
            surplus -= u64::from(goes);
            goes
        })?;
        self.state.length = self.state.length.saturating_sub(removed);
        self.blocks.put(id, trimmed)?;
        Ok(removed)
    }
}
