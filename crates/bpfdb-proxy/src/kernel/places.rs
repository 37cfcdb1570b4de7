//! Places that the programs know clients and servers by, and when one may be used again.
//!
//! A run of a program may have looked at a place just before it was given back, and lose its processor
//! there. So a place is another's only after a grace period, which a thread waits for. Places are given
//! out in the order in which they came back: the wait is over long before.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::error::{Result, system};

/// Grace periods, which are counted.
#[derive(Debug)]
pub(crate) struct Graces {
    asked: u64,
    passed: Arc<AtomicU64>,
    /// `None`: the thread is to end.
    sender: Option<Sender<u64>>,
    thread: Option<JoinHandle<()>>,
}

impl Graces {
    /// # Errors
    /// There are no maps or no thread for it.
    pub(crate) fn start() -> Result<Self> {
        let grace = bpfdb::Grace::new()?;
        let (sender, receiver) = channel();
        let passed = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&passed);
        let thread = thread::Builder::new()
            .name("grace".into())
            .spawn(move || run(&grace, &receiver, &counted))
            .map_err(system("start a thread"))?;
        Ok(Self {
            asked: 0,
            passed,
            sender: Some(sender),
            thread: Some(thread),
        })
    }

    /// The number of a grace period that begins later than now.
    fn ask(&mut self) -> u64 {
        self.asked += 1;
        if let Some(sender) = &self.sender {
            // Without the thread no place is used again.
            let _ = sender.send(self.asked);
        }
        self.asked
    }

    fn has_passed(&self, number: u64) -> bool {
        self.passed.load(Ordering::SeqCst) >= number
    }
}

impl Drop for Graces {
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One grace period is for all that have asked before it begins.
fn run(grace: &bpfdb::Grace, numbers: &Receiver<u64>, passed: &AtomicU64) {
    while let Ok(first) = numbers.recv() {
        let last = numbers.try_iter().last().unwrap_or(first);
        match grace.wait() {
            Ok(()) => passed.store(last, Ordering::SeqCst),
            // The next one that passes is as good for these.
            Err(error) => tracing::error!(%error, "cannot wait for programs to end"),
        }
    }
}

/// Free places of one kind, the one that has been free longest first.
#[derive(Debug)]
pub(crate) struct Places {
    /// With the grace period that must have passed.
    free: VecDeque<(u32, u64)>,
}

impl Places {
    /// Of `count` places, none of which was used.
    pub(crate) fn new(count: u32) -> Self {
        let free = (0..count).map(|place| (place, 0)).collect();
        Self { free }
    }

    /// A place for another; `None`: there is none, or none yet.
    pub(crate) fn take(&mut self, graces: &Graces) -> Option<u32> {
        let &(place, number) = self.free.front()?;
        graces.has_passed(number).then(|| {
            self.free.pop_front();
            place
        })
    }

    /// Gives one back that no program was told of.
    pub(crate) fn put_back(&mut self, place: u32) {
        self.free.push_front((place, 0));
    }

    /// Gives one back that the programs do not find any more, once its generation has been changed.
    pub(crate) fn leave(&mut self, place: u32, graces: &mut Graces) {
        self.free.push_back((place, graces.ask()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a thread: its grace periods pass when the test says so.
    fn graces() -> Graces {
        Graces {
            asked: 0,
            passed: Arc::default(),
            sender: None,
            thread: None,
        }
    }

    #[test]
    fn a_place_is_used_again_after_a_grace_period_and_all_others() {
        let (mut places, mut graces) = (Places::new(2), graces());
        assert_eq!(places.take(&graces), Some(0));
        places.leave(0, &mut graces);
        assert_eq!(places.take(&graces), Some(1));
        assert_eq!(places.take(&graces), None);
        graces.passed.store(1, Ordering::SeqCst);
        assert_eq!(places.take(&graces), Some(0));
        places.put_back(0);
        assert_eq!(places.take(&graces), Some(0));
    }
}
