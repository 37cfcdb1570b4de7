//! Values that are no strings: hashes, lists, sets, sorted sets and streams.
//!
//! The engine keeps a collection as one value whose bytes are a packed run ([`run`]). Each type has a
//! structure in memory that is made of a run and written as one. A command that reads one element looks
//! for it in the run itself; a command that writes makes the structure. A large collection has many runs,
//! in pages, and a head at its key ([`big`]). A stream has a form of its own ([`stream::value`]).

pub mod big;
pub mod double;
mod edit;
mod elements;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod integer;
pub mod limits;
pub mod list;
pub mod listpack;
pub mod places;
pub mod run;
pub mod set;
pub mod sorted_set;
pub mod stream;

pub use hash::Hash;
pub use set::Set;
