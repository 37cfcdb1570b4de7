//! Signals that end a long command early.

use bpfdb_copies::Error;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// SIGINT and SIGTERM, which from now on end the process only where it asks.
pub(crate) struct Interrupts(SignalFd);

impl Interrupts {
    /// Before any thread is started: they inherit it.
    pub(crate) fn hold() -> anyhow::Result<Self> {
        let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
        signals.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self(SignalFd::with_flags(&signals, flags)?))
    }

    /// [`Error::Interrupted`] if one of them has come.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.0.read_signal() {
            Ok(Some(_)) => Err(Error::Interrupted),
            // It cannot be installed: then signals are ignored.
            Ok(None) | Err(_) => Ok(()),
        }
    }
}
