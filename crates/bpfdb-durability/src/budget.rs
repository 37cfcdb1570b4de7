//! Bounds the bytes that one thread hands over to others and that these have not done with.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// So many bytes may be on their way together. Clones are the same budget.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    most: usize,
    taken: Arc<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: Mutex<usize>,
    given_back: Condvar,
}

/// Bytes of a budget, which are given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    bytes: usize,
    taken: Arc<Taken>,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            taken: Arc::default(),
        }
    }

    /// Takes so many bytes; waits until there is room for them. More than the budget is taken when
    /// nothing else is.
    pub(crate) fn take(&self, bytes: usize) -> Share {
        let taken = self.taken.bytes.lock();
        let taken = taken.unwrap_or_else(PoisonError::into_inner);
        let is_too_much = |taken: &mut usize| *taken > 0 && taken.saturating_add(bytes) > self.most;
        let taken = self.taken.given_back.wait_while(taken, is_too_much);
        *taken.unwrap_or_else(PoisonError::into_inner) += bytes;
        Share {
            bytes,
            taken: Arc::clone(&self.taken),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let taken = self.taken.bytes.lock();
        *taken.unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.taken.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, sync_channel};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_wants_more_than_is_left_waits() {
        let budget = Budget::new(100);
        let first = budget.take(60);
        let second = budget.take(40);
        let (send, received) = sync_channel(1);
        let other = budget.clone();
        let waiting = thread::spawn(move || {
            send.send(other.take(50)).expect("somebody listens");
        });
        let is_early = received.recv_timeout(Duration::from_millis(50));
        assert!(matches!(is_early, Err(RecvTimeoutError::Timeout)));
        drop(second);
        let is_early = received.recv_timeout(Duration::from_millis(50));
        assert!(matches!(is_early, Err(RecvTimeoutError::Timeout)));
        drop(first);
        let share = received.recv_timeout(Duration::from_secs(60));
        assert_eq!(share.expect("there is room").bytes, 50);
        waiting.join().expect("no panic");
    }

    #[test]
    fn more_than_all_of_it_is_taken_alone() {
        let budget = Budget::new(100);
        drop(budget.take(1000));
        drop(budget.take(1000));
        assert_eq!(budget.take(1).bytes, 1);
    }
}
