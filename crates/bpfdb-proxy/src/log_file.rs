//! The file of the log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;

/// Written at its end. All copies are the same file.
#[derive(Clone)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: Arc<Mutex<File>>,
}

impl LogFile {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = open(path).with_context(|| format!("cannot open logfile {}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(Mutex::new(file)),
        })
    }

    /// Goes on with the file that has the name now. The former one may have got another, as log rotation does it.
    pub(crate) fn open_again(&self) {
        match open(&self.path) {
            Ok(file) => *self.file.lock().unwrap_or_else(PoisonError::into_inner) = file,
            Err(error) => {
                tracing::error!(%error, "cannot open logfile again; the log goes where it went")
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
