//! Work that the memory thread does for callers that do not wait for it: they come again
//! and ask whether it is done.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;

/// One kind of work. All callers that ask before it begins are served by doing it once.
#[derive(Debug, Default)]
pub(crate) struct Chore {
    asked: AtomicU64,
    done: AtomicU64,
}

impl Chore {
    /// Asks for it; the number to ask [`Chore::is_done`] with.
    pub(crate) fn ask(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Was it done, or tried, since it was asked for by this number?
    pub(crate) fn is_done(&self, number: u64) -> bool {
        self.done.load(Ordering::Acquire) >= number
    }

    /// By the memory thread: does it if a caller has asked. An Error counts as done, so
    /// that no caller waits for ever.
    pub(crate) fn run(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let asked = self.asked.load(Ordering::Acquire);
        if self.is_done(asked) {
            return Ok(());
        }
        let outcome = work();
        self.done.store(asked, Ordering::Release);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn who_asks_while_it_is_done_has_it_done_again() {
        let errand = Chore::default();
        errand.run(|| panic!("nobody has asked")).expect("nothing");
        let first = errand.ask();
        assert!(!errand.is_done(first));
        let mut second = 0;
        let work = || {
            second = errand.ask();
            Ok(())
        };
        errand.run(work).expect("done");
        assert!(errand.is_done(first) && !errand.is_done(second));
        let failed = errand.run(|| Err(Error::Invalid("no".into())));
        assert!(failed.is_err() && errand.is_done(second));
    }
}
