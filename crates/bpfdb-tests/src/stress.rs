//! Parallel runs, and what must hold in each.
//!
//! Every run returns what it did, or what it found wrong; it leaves the target
//! empty, with all gauges at zero.

mod census;
mod churn;
mod counter;
mod grow_shrink;
mod growth;
mod history;
mod money;
mod snapshot;
mod torn;
mod whole;

use std::sync::atomic::{AtomicBool, Ordering};

use bpfdb_model::Error;

use crate::target::Target;

pub use census::{Census, census};
pub use churn::{Churn, churn};
pub use counter::{Counter, count};
pub use grow_shrink::{GrowShrink, grow_and_shrink};
pub use growth::{Growth, grow};
pub use history::{Histories, Last, record, record_slowly};
pub use money::{DEPOSIT, Money, transfer, transfer_with};
pub use snapshot::{Still, stand_still};
pub use torn::{Torn, overwrite};
pub use whole::{End, Ended, Step, Stepwise, Whole, WholeClient, record_whole};

/// What the transactions of a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub committed: u64,
    pub conflicts: u64,
    pub versions_full: u64,
    pub out_of_memory: u64,
    /// Rolled back, or left open by a session that closed, on purpose.
    pub given_up: u64,
    pub snapshots: u64,
    /// Operators that were seen to be interrupted by others: some of them.
    pub interrupts: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.committed += other.committed;
        self.conflicts += other.conflicts;
        self.versions_full += other.versions_full;
        self.out_of_memory += other.out_of_memory;
        self.given_up += other.given_up;
        self.snapshots += other.snapshots;
        self.interrupts += other.interrupts;
    }

    /// Counts an Error that a correct client has to expect in a read-write
    /// transaction; any other one is a finding.
    fn expect(&mut self, error: Error) -> Result<(), String> {
        match error {
            Error::Conflict => self.conflicts += 1,
            Error::VersionsFull => self.versions_full += 1,
            Error::MemoryPending => wait_for_memory(),
            other => return Err(format!("unexpected Error {other}")),
        }
        Ok(())
    }
}

fn wait_for_memory() {
    std::thread::sleep(std::time::Duration::from_millis(1));
}

/// Memory that is being added is no Error for a caller that can wait.
fn retry_auto_commit<V>(mut operator: impl FnMut() -> Result<V, Error>) -> Result<V, Error> {
    loop {
        match operator() {
            Err(Error::MemoryPending) => wait_for_memory(),
            outcome => return outcome,
        }
    }
}

/// Others that use the engine at the same time, by other ways than clients.
pub trait Guests {
    /// Ends them: they hold nothing any more. What they did, or found wrong.
    fn end(self) -> Result<Tally, String>;
}

/// Nobody.
impl Guests for () {
    fn end(self) -> Result<Tally, String> {
        Ok(Tally::default())
    }
}

/// Runs the workers, each with its number and a client of its own, and adds up.
/// A worker that finds something wrong stops the others. Once all are done, and
/// before they close their sessions, nothing may be held.
fn in_parallel<T: Target>(
    target: &T,
    workers: usize,
    guests: impl Guests,
    work: impl Fn(usize, &mut T::Client<'_>, &AtomicBool) -> Result<Tally, String> + Sync,
) -> Result<Tally, String> {
    let stop = AtomicBool::new(false);
    let mut clients: Vec<T::Client<'_>> = (0..workers).map(|_| target.client()).collect();
    let results: Vec<Result<Tally, String>> = std::thread::scope(|scope| {
        let spawn = |(number, client)| {
            let (work, stop) = (&work, &stop);
            scope.spawn(move || {
                let result = work(number, client, stop);
                stop.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            })
        };
        let handles: Vec<_> = clients.iter_mut().enumerate().map(spawn).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().expect("worker panicked"))
            .collect()
    });
    let mut total = guests.end()?;
    for result in results {
        total.add(result?);
    }
    let held = target.gauges();
    match (held.locks, held.transactions) {
        (0, 0) => Ok(total),
        _ => Err(format!(
            "held although every transaction has ended: {held:?}"
        )),
    }
}

/// Runs `body` while `noise` runs beside it, for example network traffic, whose
/// programs interrupt those of `body`. `noise` ends when its flag is set.
pub fn beside<R>(noise: impl FnOnce(&AtomicBool) + Send, body: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let handle = scope.spawn(move || noise(stop));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        stop.store(true, Ordering::Relaxed);
        handle.join().expect("the noise panicked");
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
