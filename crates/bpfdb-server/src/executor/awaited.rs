//! The values in files that a connection's requests wait for.

use std::sync::Arc;

use bpfdb::ColdRead;

use crate::commands::cold::ROUNDS;

#[derive(Debug, Default)]
pub(super) struct Awaited {
    reads: Vec<Arc<dyn ColdRead>>,
    /// How often the command that goes on has begun reads, and with how many of its keys done.
    rounds: u32,
    keys_done: usize,
}

impl Awaited {
    /// Reads have begun, if any. `keys_done`: of a command that goes on.
    pub(super) fn note(&mut self, reads: Vec<Arc<dyn ColdRead>>, keys_done: Option<usize>) {
        let is_another = keys_done != Some(self.keys_done);
        if is_another {
            self.keys_done = keys_done.unwrap_or(0);
            self.rounds = 0;
        }
        if !reads.is_empty() {
            self.reads = reads;
            self.rounds += 1;
        }
    }

    /// Are some of them still under way?
    pub(super) fn is_reading(&self) -> bool {
        self.reads.iter().any(|read| !read.is_over())
    }

    /// May the command that goes on be executed again for others?
    pub(super) fn may_follow(&self) -> bool {
        self.rounds < ROUNDS
    }
}
