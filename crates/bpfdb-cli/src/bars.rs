//! How far a long work has come, on standard error if that is a terminal.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const TICK: Duration = Duration::from_millis(200);

/// A bar that is gone when this is dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Of a work on so many bytes.
    pub(crate) fn bytes(what: &'static str, total: u64) -> Self {
        let form = "{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}, {eta} left";
        Self::start(what, ProgressBar::new(total), form)
    }

    /// Of a work on so many things, which `what` names.
    pub(crate) fn count(what: &'static str, total: u64) -> Self {
        let form = "{wide_bar} {human_pos} of {human_len} {msg}, {eta} left";
        Self::start(what, ProgressBar::new(total), form)
    }

    /// Of a work whose size is not known.
    pub(crate) fn unknown(what: &'static str) -> Self {
        Self::start(
            what,
            ProgressBar::new_spinner(),
            "{spinner} {msg}, {elapsed}",
        )
    }

    fn start(what: &'static str, bar: ProgressBar, form: &str) -> Self {
        // Without its form it is plainer.
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        bar.set_message(Cow::Borrowed(what));
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// The whole is another one than was thought.
    pub(crate) fn length(&self, bytes: u64) {
        self.0.set_length(bytes);
    }

    pub(crate) fn at(&self, bytes: u64) {
        self.0.set_position(bytes);
    }

    pub(crate) fn say(&self, text: String) {
        self.0.set_message(text);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
