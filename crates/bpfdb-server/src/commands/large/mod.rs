//! Large collections in the engine: `docs/formats/large-collections.md` has the form, [`bpfdb_values::big`] what is
//! done to pages.
//!
//! ```text
//! pages.rs       pages as records of the engine, in the transaction of a session
//! apart.rs       pages in transactions of their own
//! limits.rs      which collections are large
//! store.rs       making one, moving one to another key
//! known.rs       which there are, as far as this process knows
//! collector.rs   removing those whose head is gone
//! garbage.rs     commands that wait for that, because they have found no memory
//! ```
//!
//! Invariants
//!  1. Head, pages and anchor of a collection are made in one transaction, and a command reads or writes them in
//!     one. So no reader sees a part of one. Many pages are committed before their head, with the anchor
//!     first: then the transaction of the head locks the anchor until it ends.
//!  2. The anchor names the key whose value the head is, or was last. RENAME and MOVE write it in the transaction
//!     that moves the head; whatever copies a value copies the pages under another identity.
//!  3. A command that removes or replaces a head, also one in the kernel, leaves pages and anchor. The collector removes pages
//!     only if in its transaction, which holds the locks of anchor and head, the key of the anchor has no
//!     head of this identity; the anchor goes with the last page.
//!  4. An identity is drawn at random, under the lock of its anchor, and taken if that is absent: then there
//!     are no pages of it either.

mod apart;
mod collector;
mod garbage;
mod known;
mod limits;
mod pages;
mod store;

pub(super) use apart::logged_apart;
pub(crate) use collector::Collector;
pub(crate) use garbage::garbage;
pub(super) use garbage::{Request, ask};
pub(crate) use known::is_used;
pub(super) use known::suspect;
pub(super) use limits::{is_to_be_large, may_write};
pub(super) use pages::{Access, SessionPages};
pub(super) use store::{moved, store};
