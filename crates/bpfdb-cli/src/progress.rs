//! How far a long command is, and what ends it early.

use bpfdb_copies::Error;
use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// A bar on standard error if that is a terminal, of about `keys` keys.
pub(crate) fn bar(keys: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} keys, {eta}");
    ProgressBar::new(keys).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

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
            // Cannot be told: then nobody is heard.
            Ok(None) | Err(_) => Ok(()),
        }
    }
}
