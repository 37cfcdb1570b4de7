//! Wakes the server's loop, from any thread.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::{Result, system};

/// Rung by one thread, heard by another one's `epoll_wait()`.
#[derive(Clone, Debug)]
pub(crate) struct Bell(Arc<EventFd>);

impl Bell {
    pub(crate) fn new() -> Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(system("create an event"))?;
        Ok(Self(Arc::new(event)))
    }

    pub(crate) fn ring(&self) {
        // It fails only if it was rung 2^64 - 1 times and not heard.
        let _ = self.0.write(1);
    }

    /// However often it was rung, it is silent from now on.
    pub(crate) fn silence(&self) {
        // It fails if it was not rung.
        let _ = self.0.read();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
