//! Large collections: a small head, and elements in pages.
//!
//! ```text
//!  value of the key        pages, by (identity, place)
//!  ┌──────┐                bucket 0 … n-1   hash, set, sorted set: elements by a keyed hash
//!  │ head │ ─ identity ─►  root ─► inner ─► leaf   list, sorted set, stream: elements in their order, counted
//!  └──────┘                groups           stream: groups of consumers, if there are any
//!                          anchor           names the key of the head
//! ```
//!
//! Each page is a packed run ([`crate::run`]) of about [`page::TARGET`] bytes, so what reads and edits small
//! collections does the same to a page. A hash and a set have a table alone, a list a tree alone; a sorted
//! set has both: the table says the score of a member, the tree its rank. The elements of a stream are its
//! blocks, by their identifiers ([`stream`]).
//!
//! Invariants
//!  1. Head and pages are read and written in one transaction: what is there is what the head says. Whoever
//!     writes a page writes the head, so a reader or watcher of the head sees every change.
//!  2. The table has the buckets 0 to `buckets` - 1, all of them, empty ones included. An element is in the
//!     bucket that its hash says ([`table`]).
//!  3. A leaf has elements, and an inner page children. A child's count in its parent is that of the elements
//!     below it. Elements of a sorted set that are below a child are not before its separator, and those below
//!     the children before are; of the first child its page's separator says so ([`tree`]).
//!  4. The pages of an identity are found without its head: buckets have no gaps, the groups have a place of
//!     their own, and everything else hangs on the root. Buckets are removed from the last, leaves from the
//!     last ([`remains`]).
//!  5. Elements, bytes and history of the head are those of all elements.

mod build;
mod cache;
mod children;
pub mod head;
mod list;
mod order;
pub mod page;
mod place;
pub mod remains;
mod siphash;
mod sorted_set;
pub mod stream;
pub mod table;
mod tree;
mod whole;

#[cfg(test)]
mod tests;

pub use build::build;
use cache::Cache;
pub use head::Head;
pub use page::{Page, Pages};
pub use place::{PageKey, Place};

use crate::integer;
use crate::limits::{Kind, is_beyond};
use crate::run;

/// What is large: its type says which structures there are, and the order of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Collection(Kind),
    Stream,
}

impl From<Kind> for Shape {
    fn from(kind: Kind) -> Self {
        Self::Collection(kind)
    }
}

impl Shape {
    /// Are there elements by their hash?
    fn has_table(self) -> bool {
        matches!(
            self,
            Self::Collection(Kind::Hash | Kind::Set | Kind::SortedSet)
        )
    }

    /// Are there elements in an order?
    fn has_tree(self) -> bool {
        !matches!(self, Self::Collection(Kind::Hash | Kind::Set))
    }
}

/// A large collection that commands work on: pages are kept until [`Big::finish`] writes those that have
/// changed.
#[derive(Debug)]
pub struct Big<P> {
    shape: Shape,
    head: Head,
    cache: Cache<P>,
}

impl<P: Pages> Big<P> {
    /// The collection with this head.
    pub fn open(shape: impl Into<Shape>, head: Head, pages: P) -> Self {
        let cache = Cache::new(head.identity, pages);
        let shape = shape.into();
        Self { shape, head, cache }
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        self.head.elements
    }

    pub fn is_empty(&self) -> bool {
        self.head.elements == 0
    }

    /// Has any page changed? Then the head is to be written too.
    pub fn has_changed(&self) -> bool {
        self.cache.has_changed()
    }

    /// Bytes of the records of pages that have changed or are removed, about.
    pub fn changed_bytes(&self) -> usize {
        self.cache.changed_bytes()
    }

    /// Writes the pages that have changed. The head that is returned is to be written with them.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn finish(self) -> Result<Head, P::Error> {
        self.cache.finish()?;
        Ok(self.head)
    }

    /// An element is new, or has got another value.
    fn note(&mut self, key: &[u8], value: &[u8]) {
        let history = &mut self.head.history;
        let longest = run::number(key.len().max(value.len()));
        history.longest = history.longest.max(longest);
        let Shape::Collection(kind) = self.shape else {
            return;
        };
        history.not_integers |= kind == Kind::Set && integer::parse(key).is_none();
        let elements = usize::try_from(self.head.elements).unwrap_or(usize::MAX);
        history.not_compact |= is_beyond(kind, elements, history.longest as usize);
    }

    /// So many bytes and elements have come and gone.
    fn count(&mut self, come: (u64, usize), gone: (u64, usize)) {
        let head = &mut self.head;
        head.elements = (head.elements + come.0).saturating_sub(gone.0);
        head.bytes = (head.bytes + come.1 as u64).saturating_sub(gone.1 as u64);
    }
}
