//! What was evicted and is not free yet, because a snapshot sees it that had begun before.

use std::collections::VecDeque;

/// Bytes, by the time at which they were evicted.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The oldest first: time ([`bpfdb::Engine::coarse_now`]) and bytes.
    parts: VecDeque<(u64, u64)>,
    bytes: u64,
}

impl Held {
    /// So many bytes were evicted now, while a snapshot is running.
    pub(super) fn note(&mut self, now: u64, bytes: u64) {
        self.bytes += bytes;
        match self.parts.back_mut() {
            Some((time, part)) if *time == now => *part += bytes,
            _ => self.parts.push_back((now, bytes)),
        }
    }

    /// Forgets what no snapshot keeps: the oldest one that runs began then. `None`: there is none.
    pub(super) fn release(&mut self, oldest: Option<u64>) {
        let oldest = oldest.unwrap_or(u64::MAX);
        while let Some(&(time, bytes)) = self.parts.front()
            && time < oldest
        {
            self.bytes -= bytes;
            self.parts.pop_front();
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_evicted_before_the_oldest_snapshot_is_free() {
        let mut held = Held::default();
        for (now, bytes) in [(10, 1), (10, 2), (20, 4), (30, 8)] {
            held.note(now, bytes);
        }
        assert_eq!(held.bytes(), 15);
        held.release(Some(10));
        assert_eq!(held.bytes(), 15);
        held.release(Some(25));
        assert_eq!(held.bytes(), 8);
        held.release(None);
        assert_eq!(held.bytes(), 0);
    }
}
