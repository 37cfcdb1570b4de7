//! The log: one line for each event of importance, to standard error or to a
//! file.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Context, Result};
use bpfdb_server::settings::{LogFormat, LogLevel, Settings};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Begins to log as the settings say. RUST_LOG, if it is set, says in more
/// detail what is logged.
pub(crate) fn start(settings: &Settings) -> Result<()> {
    let chosen = EnvFilter::try_from_default_env();
    let (filter, handle) =
        reload::Layer::new(chosen.unwrap_or_else(|_| filter(settings.log_level)));
    let colours = settings.log_file.is_none() && io::stderr().is_terminal();
    let lines = fmt::layer()
        .with_ansi(colours)
        // It would panic on a standard error without a reader.
        .log_internal_errors(false)
        .with_writer(writer(settings)?);
    let lines = match settings.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init()
        .context("cannot start the log")?;
    // The first to start the log is the only one.
    let _ = FILTER.set(handle);
    Ok(())
}

/// Changes what is logged from now on.
pub(crate) fn set_level(level: LogLevel) {
    let changed = FILTER.get().map(|handle| handle.reload(filter(level)));
    if let Some(Err(error)) = changed {
        tracing::error!(%error, "cannot change what is logged");
    }
}

fn filter(level: LogLevel) -> EnvFilter {
    EnvFilter::new(level.word())
}

fn writer(settings: &Settings) -> Result<BoxMakeWriter> {
    let Some(path) = &settings.log_file else {
        return Ok(BoxMakeWriter::new(io::stderr));
    };
    let file = open(path).with_context(|| format!("cannot write the log {}", path.display()))?;
    // As above.
    let file = FILE.get_or_init(|| LogFile {
        path: path.clone(),
        file: Mutex::new(file),
    });
    Ok(BoxMakeWriter::new(move || file))
}

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: Mutex<File>,
}

static FILE: OnceLock<LogFile> = OnceLock::new();

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

impl LogFile {
    fn file(&self) -> MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for &LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

/// Goes on in a new file of the same name: the old one may have been renamed. If
/// that fails, in the old one.
pub(crate) fn reopen() {
    let Some(log) = FILE.get() else {
        return;
    };
    match open(&log.path) {
        Ok(file) => {
            *log.file() = file;
            tracing::info!("the log was opened anew");
        }
        Err(error) => tracing::error!(%error, "cannot open the log anew"),
    }
}
