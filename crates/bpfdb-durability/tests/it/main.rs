//! The tests of this crate that need nothing private: a module for each subject.

mod checkpoints;
mod common;
mod embedded;
mod engine;
mod full_disk;
mod ordered;
mod overlapping;
mod recovery;
mod restart;
mod retention;
mod short_memory;
mod value_types;
