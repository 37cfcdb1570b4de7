//! Standard output, and what else is printed.

use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

/// From now on libbpf prints nothing: what has failed is reported by its caller.
pub(crate) fn silence_libbpf() {
    // SAFETY: no print function is a valid argument.
    unsafe { libbpf_sys::libbpf_set_print(None) };
}

/// Writes `text` and hands it on. That it is not read, or no more of it, as in
/// `bpfdb stats | head`, is no error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}
