//! Stopping a server.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, OnceLock};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::{Result, system};

#[derive(Debug)]
struct Stop {
    event: EventFd,
    keep_data: OnceLock<bool>,
}

/// Stops a server, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Stop>);

impl Stopper {
    pub(crate) fn new() -> Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(system("create an event"))?;
        Ok(Self(Arc::new(Stop {
            event,
            keep_data: OnceLock::new(),
        })))
    }

    pub fn stop(&self) {
        if let Err(error) = self.0.event.write(1) {
            tracing::error!(%error, "cannot stop the server");
        }
    }

    /// The same, and says what becomes of the data. The first word counts.
    pub(crate) fn stop_and(&self, keep_data: bool) {
        self.0.keep_data.get_or_init(|| keep_data);
        self.stop();
    }

    /// Has a client said whether the data shall stay? (SHUTDOWN SAVE, NOSAVE.)
    pub fn keeps_data(&self) -> Option<bool> {
        self.0.keep_data.get().copied()
    }
}

impl AsFd for Stopper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}
