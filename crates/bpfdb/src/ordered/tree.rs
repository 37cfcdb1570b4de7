//! The index of an ordered table: nodes that are records, found by level and fence.
//!
//! ```text
//!  height         1
//!  level 1        ""  [ "", "d", "m" ]                       one node, or several, as below
//!                   │     │      └───────────────┐
//!  level 0        ""  [ a, b, c ] ─► "d" [ d, f, k ] ─► "m" [ m, x ]
//! ```
//!
//! Invariants, of each committed state and of what a transaction sees
//!  1. The nodes of a level divide all keys among them: a node has those from its fence, which is part of its
//!     name, up to the fence of the next one, which it holds. The first fence is empty.
//!  2. The leaves have the keys of the table's rows: what makes a row come or go does the same to the entry,
//!     in the same transaction. A lock on a leaf keeps keys of its range from coming and going.
//!  3. The entries of an inner node are the fences of the nodes below it. Its own fence is the first of them.
//!  4. `height` is that of the highest level, which has one node. Levels come and never go.
//!
//! A node is changed under an exclusive lock on it. The way down takes no locks: what a [peek](Records::peek)
//! finds in inner nodes is a hint, which may be old. A leaf is locked, and says itself what its range is: if the
//! key is behind it, the way goes on to the right; if it is gone, from the top. So readers lock leaves only,
//! and a split is in the way of those that read or write the same leaf, not of others.
//!
//! A node goes when its last entry goes, unless it is the first child of a parent that has others: then it stays
//! empty until these are gone. Nodes that are merely short stay.

use super::FORMAT;
use super::node::Node;
use crate::{Keyspace, Status, abi};

const HEIGHT: u8 = abi::BPFDB_NODE_HEIGHT as u8;
const LEVELS_MAX: u8 = abi::BPFDB_NODE_LEVELS_MAX as u8;
/// Descents until one finds the node where others said it was.
const TRIES: usize = 16;

/// The records of a transaction, by their stored keys. Errors are those of the engine.
pub(super) trait Records {
    /// The newest version, or the transaction's own, without a lock. In a snapshot: as `read`.
    fn peek(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Status>;
    /// Under a shared lock, or of the snapshot.
    fn read(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Status>;
    /// Under an exclusive lock.
    fn lock(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Status>;
    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Status>;
    fn delete(&mut self, key: &[u8]) -> Result<(), Status>;
}

/// How a node is read.
#[derive(Clone, Copy, Debug)]
enum Access {
    Peek,
    Read,
    Lock,
}

/// Which node of a level is meant: that of a key, or the last one that begins before it.
#[derive(Clone, Copy, Debug)]
struct Aim<'a> {
    key: &'a [u8],
    before: bool,
}

impl<'a> Aim<'a> {
    fn of(key: &'a [u8]) -> Self {
        Self { key, before: false }
    }

    fn before(key: &'a [u8]) -> Self {
        Self { key, before: true }
    }

    /// May it be a node with this fence, or one to the right?
    fn is_from(&self, fence: &[u8]) -> bool {
        fence < self.key || (!self.before && fence == self.key)
    }
}

pub(super) struct Tree<'a, R> {
    records: &'a mut R,
    table: u8,
    /// As known last.
    height: u8,
}

impl<'a, R: Records> Tree<'a, R> {
    /// `height`: as it may be.
    pub(super) fn new(records: &'a mut R, table: u8, height: u8) -> Self {
        Self {
            records,
            table,
            height,
        }
    }

    /// As it may be by now, for the next tree of the table.
    pub(super) fn height(&self) -> u8 {
        self.height
    }

    fn name(&self, level: u8, fence: &[u8]) -> Vec<u8> {
        let prefix = Keyspace::NODES.prefix();
        [&prefix[..], &[self.table, level], fence].concat()
    }

    // ---- Ways to a node -----------------------------------------------------------

    fn get(&mut self, level: u8, fence: &[u8], access: Access) -> Result<Option<Node>, Status> {
        let name = self.name(level, fence);
        let bytes = match access {
            Access::Peek => self.records.peek(&name)?,
            Access::Read => self.records.read(&name)?,
            Access::Lock => self.records.lock(&name)?,
        };
        let parse = |bytes| Node::parse(bytes, level, fence);
        bytes.map(parse).transpose()
    }

    fn height_of(bytes: Option<&[u8]>) -> Result<u8, Status> {
        match bytes {
            None => Ok(0),
            Some(&[FORMAT, height]) if height < LEVELS_MAX => Ok(height),
            Some(_) => Err(Status::Corrupt),
        }
    }

    fn learn_height(&mut self) -> Result<(), Status> {
        let bytes = self.records.peek(&self.name(HEIGHT, &[]))?;
        self.height = Self::height_of(bytes.as_deref())?;
        Ok(())
    }

    /// The node with this fence, or one to its right, by what the nodes say themselves; its fence. `None`: one
    /// of them is not there.
    fn reach(
        &mut self,
        level: u8,
        mut fence: Vec<u8>,
        aim: Aim<'_>,
        access: Access,
    ) -> Result<Option<(Vec<u8>, Node)>, Status> {
        loop {
            let Some(node) = self.get(level, &fence, access)? else {
                let is_empty_table = level == 0 && fence.is_empty();
                return Ok(is_empty_table.then(|| (fence, Node::empty(0))));
            };
            match node.next() {
                Some(next) if aim.is_from(next) => fence = next.to_vec(),
                _ => return Ok(Some((fence, node))),
            }
        }
    }

    /// Where the nodes above say that it begins. `None`: one of them is not there.
    fn descend(&mut self, level: u8, aim: Aim<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut fence = Vec::new();
        for above in (level + 1..=self.height).rev() {
            let Some((found, node)) = self.reach(above, fence, aim, Access::Peek)? else {
                return Ok(None);
            };
            if above == self.height && !found.is_empty() {
                // The highest level has one node: there is a higher one by now.
                return Ok(None);
            }
            let before = node.before(|entry| aim.is_from(entry));
            let child = before.checked_sub(1).ok_or(Status::Corrupt)?;
            fence = node.key(child).to_vec();
        }
        Ok(Some(fence))
    }

    /// A node and its fence.
    fn find(&mut self, level: u8, aim: Aim<'_>, access: Access) -> Result<(Vec<u8>, Node), Status> {
        for _ in 0..TRIES {
            if level >= self.height {
                // As far as is known there is nothing above that leads to it.
                self.learn_height()?;
            }
            if let Some(fence) = self.descend(level, aim)?
                && let Some(found) = self.reach(level, fence, aim, access)?
            {
                return Ok(found);
            }
            self.learn_height()?;
        }
        Err(Status::Conflict)
    }

    // ---- Scans ----------------------------------------------------------------------

    /// The leaf that has this key, if there is one.
    pub(super) fn leaf(&mut self, key: &[u8]) -> Result<Node, Status> {
        Ok(self.find(0, Aim::of(key), Access::Read)?.1)
    }

    /// The leaf with this fence, which the one before it has said under its lock.
    pub(super) fn next_leaf(&mut self, fence: &[u8]) -> Result<Node, Status> {
        self.get(0, fence, Access::Read)?.ok_or(Status::Corrupt)
    }

    // ---- Insertion ------------------------------------------------------------------

    /// The key of a row that comes.
    pub(super) fn insert(&mut self, key: &[u8]) -> Result<(), Status> {
        let (fence, mut leaf) = self.find(0, Aim::of(key), Access::Lock)?;
        let place = leaf.find(key).err().ok_or(Status::Corrupt)?;
        leaf.insert(place, key);
        self.put(0, fence, leaf, place)
    }

    /// Writes a node that got an entry at `place`, divided if it is too long, and what follows above it.
    fn put(
        &mut self,
        mut level: u8,
        mut fence: Vec<u8>,
        mut node: Node,
        mut place: usize,
    ) -> Result<(), Status> {
        while let Some((separator, right)) = node.split(place) {
            self.write(level, &fence, &node)?;
            self.write(level, &separator, &right)?;
            if level >= self.height && self.raise(level, &separator)? {
                return Ok(());
            }
            level += 1;
            (fence, node) = self.find(level, Aim::of(&separator), Access::Lock)?;
            place = node.find(&separator).err().ok_or(Status::Corrupt)?;
            node.insert(place, &separator);
        }
        self.write(level, &fence, &node)
    }

    /// Puts a level above this one, which had one node and has two. False: it was not the highest.
    fn raise(&mut self, level: u8, separator: &[u8]) -> Result<bool, Status> {
        let name = self.name(HEIGHT, &[]);
        let bytes = self.records.lock(&name)?;
        self.height = Self::height_of(bytes.as_deref())?;
        if level < self.height {
            return Ok(false);
        }
        if level + 1 >= LEVELS_MAX {
            return Err(Status::Corrupt);
        }
        let mut top = Node::empty(level + 1);
        top.insert(0, &[]);
        top.insert(1, separator);
        self.write(level + 1, &[], &top)?;
        self.height = level + 1;
        self.records.set(&name, &[FORMAT, self.height])?;
        Ok(true)
    }

    fn write(&mut self, level: u8, fence: &[u8], node: &Node) -> Result<(), Status> {
        self.records.set(&self.name(level, fence), node.bytes())
    }

    // ---- Removal ----------------------------------------------------------------------

    /// The key of a row that goes.
    pub(super) fn remove(&mut self, key: &[u8]) -> Result<(), Status> {
        let (fence, mut leaf) = self.find(0, Aim::of(key), Access::Lock)?;
        let place = leaf.find(key).ok().ok_or(Status::Corrupt)?;
        leaf.remove(place);
        self.write(0, &fence, &leaf)?;
        if leaf.is_empty() {
            self.prune(fence)?;
        }
        Ok(())
    }

    /// Takes an empty leaf away, with the inner nodes that have nothing else below them; then the first leaf
    /// of the parent, if that was empty and kept for the others' sake.
    fn prune(&mut self, mut fence: Vec<u8>) -> Result<(), Status> {
        while !fence.is_empty() {
            let Some((level, parent_fence, mut parent)) = self.top_of(&fence)? else {
                return Ok(());
            };
            let place = parent.find(&fence).ok().ok_or(Status::Corrupt)?;
            parent.remove(place);
            self.write(level, &parent_fence, &parent)?;
            for below in 0..level {
                self.unlink(below, &fence)?;
            }
            if parent.len() > 1 || parent_fence.is_empty() {
                return Ok(());
            }
            let first = self.get(0, &parent_fence, Access::Lock)?;
            if !first.ok_or(Status::Corrupt)?.is_empty() {
                return Ok(());
            }
            fence = parent_fence;
        }
        Ok(())
    }

    /// The lowest node that has the nodes with this fence below it and is none of them: its level and fence.
    /// `None`: one of them has other children, so they stay.
    fn top_of(&mut self, fence: &[u8]) -> Result<Option<(u8, Vec<u8>, Node)>, Status> {
        self.learn_height()?;
        let mut level = 1;
        // The height grows on the way, if another one has put a level above.
        while level <= self.height {
            let (found, node) = self.find(level, Aim::of(fence), Access::Lock)?;
            if found != fence {
                return Ok(Some((level, found, node)));
            }
            if node.len() > 1 {
                return Ok(None);
            }
            level += 1;
        }
        // The highest level has one node, and its fence is empty: what was read was old.
        Err(Status::Conflict)
    }

    /// Takes a node out of its level: the one before it has its range.
    fn unlink(&mut self, level: u8, fence: &[u8]) -> Result<(), Status> {
        let node = self.get(level, fence, Access::Lock)?;
        let node = node.ok_or(Status::Corrupt)?;
        let (left_fence, mut left) = self.find(level, Aim::before(fence), Access::Lock)?;
        if left.next() != Some(fence) {
            return Err(Status::Corrupt);
        }
        left.set_next(node.next());
        self.write(level, &left_fence, &left)?;
        self.records.delete(&self.name(level, fence))
    }
}
