//! Figures of procedures for the metrics. The thread that serves requests replaces them once a
//! second, and the metrics endpoint reads the latest. One waits for the other as long as it takes to
//! copy a pointer.

use std::sync::{Arc, Mutex, PoisonError};

/// One procedure that has, or had, a program.
#[derive(Debug)]
pub(crate) struct ProcedureFigures {
    pub(crate) name: String,
    /// `function` or `script`.
    pub(crate) kind: &'static str,
    /// Calls that the kernel ran, and that the daemon ran.
    pub(crate) kernel: u64,
    pub(crate) daemon: u64,
    /// Attempts that were repeated after a conflict.
    pub(crate) retries: u64,
}

/// Programs of compiled procedures that are in the kernel now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Programs {
    pub(crate) number: u64,
    /// Bytes of their machine code.
    pub(crate) machine_code: u64,
}

#[derive(Debug, Default)]
pub(crate) struct AllProcedures {
    /// No more than the kernel has numbers for: `BPFDB_PROCEDURE_NAMES`.
    pub(crate) each: Vec<ProcedureFigures>,
    pub(crate) programs: Programs,
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
