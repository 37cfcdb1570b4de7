//! Values that are no strings: hashes, lists, sets and sorted sets.
//!
//! The engine keeps a collection as one value whose bytes are a packed run ([`run`]). Each type has a
//! structure in memory that is made of a run and written as one.

pub mod run;
