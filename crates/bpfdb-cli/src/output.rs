//! Standard output.

use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

/// Writes `text` and hands it on. That nobody reads it, or no more of it, as in
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
