//! What is retained for recovery to an earlier moment, and what was given up of it and is there still.

use std::time::Instant;

use super::retention::Retention;

/// What is retained, and what of it is to go: the part of the shared state that `retain.rs` changes.
#[derive(Debug)]
pub(super) struct Retaining {
    pub(super) retention: Retention,
    pub(super) looked: Instant,
    /// Segments were given up that are not recycled yet.
    pub(super) recycles: bool,
    /// One of them could not be: it is tried again from time to time, and if the disk is full.
    pub(super) is_stuck: bool,
    /// The disk was full when they were given up: they give space back.
    pub(super) gives_back: bool,
    /// Checkpoints that are to be removed.
    superseded: Vec<u64>,
    /// A writer lacks room, and waits.
    pub(super) wants_room: bool,
    /// Whether there may be more now.
    pub(super) room: Option<bool>,
}

impl Retaining {
    pub(super) fn new(retention: Retention) -> Self {
        Self {
            retention,
            looked: Instant::now(),
            recycles: false,
            is_stuck: false,
            gives_back: false,
            superseded: Vec::new(),
            wants_room: false,
            room: None,
        }
    }

    /// What was decided is done.
    pub(super) fn replace(&mut self, next: Retention) {
        let kept = next.numbers();
        let gone = self.retention.numbers();
        let gone = gone.into_iter().filter(|number| !kept.contains(number));
        self.superseded.extend(gone.filter(|number| *number != 0));
        // Others may have changed them meanwhile.
        let options = std::mem::replace(&mut self.retention, next).options;
        self.retention.options = options;
        self.recycles = true;
    }

    /// What could not be recycled may be now.
    pub(super) fn try_again(&mut self) {
        self.recycles |= self.is_stuck;
    }

    /// Checkpoints that are not needed any more.
    pub(super) fn take_superseded(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.superseded)
    }
}
