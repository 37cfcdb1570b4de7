//! Where the blocks of a stream are kept.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::id::Id;
use crate::run::Malformed;

/// A block: its identifier and its bytes.
pub type Stored<'a> = (Id, Cow<'a, [u8]>);

/// Blocks by their identifiers. A stream reads and writes them by these calls alone: they lie in the stream's value
/// ([`Inline`]), or in pages ([`Paged`](crate::big::stream::Paged)).
pub trait Blocks {
    type Error: From<Malformed>;

    /// The block with the greatest identifier up to this one: the only one that may have the entry.
    fn last_up_to(&mut self, id: Id) -> Result<Option<Stored<'_>>, Self::Error>;

    /// The block with the smallest identifier from this one on.
    fn first_from(&mut self, id: Id) -> Result<Option<Stored<'_>>, Self::Error>;

    /// Adds a block, or puts these bytes in place of its own.
    fn put(&mut self, id: Id, bytes: Vec<u8>) -> Result<(), Self::Error>;

    fn remove(&mut self, id: Id) -> Result<(), Self::Error>;

    /// All identifiers, ascending.
    fn ids(&mut self) -> Result<Vec<Id>, Self::Error>;

    /// The bytes of the groups, if they lie where the blocks are
    /// ([`KeptGroups::Stored`](super::KeptGroups::Stored)).
    fn stored_groups(&mut self) -> Result<Vec<u8>, Self::Error> {
        Ok(Vec::new())
    }
}

/// Blocks that lie in the value of their stream.
#[derive(Clone, Debug, Default)]
pub struct Inline<'a> {
    /// Identifiers ascend.
    blocks: VecDeque<Stored<'a>>,
}

impl<'a> Inline<'a> {
    /// Adds a block behind all others.
    ///
    /// # Errors
    /// It does not belong there.
    pub fn push(&mut self, id: Id, bytes: Cow<'a, [u8]>) -> Result<(), Malformed> {
        if self.blocks.back().is_some_and(|(last, _)| *last >= id) {
            return Err(Malformed("blocks that do not ascend"));
        }
        self.blocks.push_back((id, bytes));
        Ok(())
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Id, &[u8])> {
        self.blocks.iter().map(|(id, bytes)| (*id, &**bytes))
    }

    /// Blocks with a smaller identifier.
    fn before(&self, id: Id) -> usize {
        self.blocks.partition_point(|(block, _)| *block < id)
    }

    fn get(&self, number: usize) -> Option<Stored<'_>> {
        let (id, bytes) = self.blocks.get(number)?;
        Some((*id, Cow::Borrowed(bytes)))
    }
}

impl Blocks for Inline<'_> {
    type Error = Malformed;

    fn last_up_to(&mut self, id: Id) -> Result<Option<Stored<'_>>, Malformed> {
        let behind = self.blocks.partition_point(|(block, _)| *block <= id);
        Ok(behind.checked_sub(1).and_then(|number| self.get(number)))
    }

    fn first_from(&mut self, id: Id) -> Result<Option<Stored<'_>>, Malformed> {
        Ok(self.get(self.before(id)))
    }

    fn put(&mut self, id: Id, bytes: Vec<u8>) -> Result<(), Malformed> {
        let number = self.before(id);
        match self.blocks.get_mut(number) {
            Some(block) if block.0 == id => block.1 = bytes.into(),
            _ => self.blocks.insert(number, (id, bytes.into())),
        }
        Ok(())
    }

    fn remove(&mut self, id: Id) -> Result<(), Malformed> {
        let number = self.before(id);
        if self.get(number).is_some_and(|(block, _)| block == id) {
            self.blocks.remove(number);
        }
        Ok(())
    }

    fn ids(&mut self) -> Result<Vec<Id>, Malformed> {
        Ok(self.blocks.iter().map(|(id, _)| *id).collect())
    }
}
