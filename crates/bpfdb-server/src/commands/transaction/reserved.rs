//! Memory that a connection keeps for EXEC: what is queued, and what is watched.
//!
//! It is bounded twice: for one connection, so that a transaction which could not be executed is
//! refused early, and for all of them together.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::context::{Failure, Outcome};
use crate::settings::limits::MESSAGE_MAX;

/// Of all connections of this process, bytes.
pub(super) const ALL_MAX: usize = 1 << 30;

static ALL: AtomicUsize = AtomicUsize::new(0);

/// Bytes that are kept, until this is dropped.
#[derive(Debug, Default)]
pub(super) struct Reserved(usize);

impl Reserved {
    pub(super) fn bytes(&self) -> usize {
        self.0
    }

    /// So many bytes more, of what `what` says.
    ///
    /// # Errors
    /// They are more than one connection may keep, or than all may.
    pub(super) fn add(&mut self, bytes: usize, what: &str) -> Outcome {
        if self.0 + bytes > MESSAGE_MAX {
            return Err(too_much(what, "this transaction"));
        }
        let before = ALL.fetch_add(bytes, Ordering::Relaxed);
        self.0 += bytes;
        if before + bytes > ALL_MAX {
            return Err(too_much(what, "transactions"));
        }
        Ok(())
    }

    pub(super) fn give_back(&mut self) {
        ALL.fetch_sub(self.0, Ordering::Relaxed);
        self.0 = 0;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.give_back();
    }
}

fn too_much(what: &str, whose: &str) -> Failure {
    format!("ERR the {what} by {whose} take too much memory; EXEC earlier").into()
}
