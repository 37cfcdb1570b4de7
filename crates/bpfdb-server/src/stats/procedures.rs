//! What the metrics tell of procedures. The thread that serves requests puts it here once a
//! second, who scrapes takes what is there: one waits for the other as long as a pointer is
//! copied.

use std::sync::{Arc, Mutex, PoisonError};

/// One procedure that has, or had, a program.
#[derive(Debug)]
pub(crate) struct ProcedureFigures {
    pub(crate) name: String,
    /// `function` or `script`.
    pub(crate) kind: &'static str,
    /// Calls by who ran them.
    pub(crate) kernel: u64,
    pub(crate) daemon: u64,
    /// Attempts that were repeated after a conflict.
    pub(crate) retries: u64,
}

#[derive(Debug, Default)]
pub(crate) struct AllProcedures {
    /// No more than the kernel has numbers for: `BPFDB_PROCEDURE_NAMES`.
    pub(crate) each: Vec<ProcedureFigures>,
    pub(crate) programs: u64,
    pub(crate) machine_code: u64,
    /// Calls that the kernel gave up, by every reason, also of procedures that are gone.
    pub(crate) deoptimisations: Vec<(&'static str, u64)>,
}

#[derive(Debug, Default)]
pub(crate) struct LatestProcedures(Mutex<Arc<AllProcedures>>);

impl LatestProcedures {
    pub(crate) fn put(&self, latest: AllProcedures) {
        let latest = Arc::new(latest);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = latest;
    }

    pub(crate) fn get(&self) -> Arc<AllProcedures> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
