//! The lines of `bpfdb tail`: docs/formats/changes.md.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use bpfdb::ValueType;
use bpfdb_copies::json_entries;
use bpfdb_log::record::{Entry, Value};
use bpfdb_log::{LargeValue, LogError, RecoveredCommit};

use crate::times;

/// A longer value is always in base64: it is not read twice to find out what it is, bytes.
const TEXT_MAX: u64 = 1 << 20;

/// Why a line is not written to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

/// Passes the bytes of a large value to a function, part by part.
pub(crate) type ReadLarge<'a> =
    &'a dyn Fn(&LargeValue, &mut dyn FnMut(&[u8])) -> Result<(), LogError>;

/// Writes a transaction as a line.
pub(crate) fn write_line(
    out: &mut impl Write,
    commit: &RecoveredCommit,
    read_large: ReadLarge<'_>,
) -> Result<(), LineError> {
    let wall = times::show(commit.wall);
    write!(
        out,
        "{{\"timestamp\":{},\"wall\":\"{wall}\",\"writes\":[",
        commit.timestamp
    )?;
    let mut large = commit.large_values.iter();
    for (n, entry) in commit.entries().enumerate() {
        let entry = entry.map_err(|why| LogError::Refused(format!("a commit's entry: {why}")))?;
        out.write_all(if n == 0 { b"{" } else { b",{" })?;
        write_bytes(out, "key", entry.key)?;
        match entry.value {
            Value::Deleted => out.write_all(b",\"deleted\":true")?,
            Value::Inline(value) => write_value(out, value)?,
            Value::Typed(kind, value) => write_typed(out, kind.code(), value)?,
            Value::Large { kind, .. } => {
                let value = large.next().ok_or(LogError::Gone {
                    timestamp: commit.timestamp,
                    complete_after: None,
                })?;
                write_large(out, kind.code(), value, read_large)?;
            }
        }
        write_expiry(out, &entry)?;
        out.write_all(b"}")?;
    }
    out.write_all(b"]}\n")?;
    Ok(())
}

fn write_value(out: &mut impl Write, value: &[u8]) -> io::Result<()> {
    out.write_all(b",")?;
    write_bytes(out, "value", value)
}

/// A string, or the entries of a collection; of a type that is not known the bytes as they are stored.
fn write_typed(out: &mut impl Write, kind: u8, value: &[u8]) -> io::Result<()> {
    let kind = ValueType::from_code(kind);
    let Some(entries) = json_entries(kind, value) else {
        write_type(out, kind)?;
        return write_value(out, value);
    };
    let ending = if entries.is_base64 { "_base64" } else { "" };
    write!(out, ",\"{}{ending}\":{}", entries.name, entries.array)
}

/// Only of what is no string.
fn write_type(out: &mut impl Write, kind: ValueType) -> io::Result<()> {
    match kind {
        ValueType::STRING => Ok(()),
        kind => write!(out, ",\"type\":{}", kind.code()),
    }
}

fn write_expiry(out: &mut impl Write, entry: &Entry<'_>) -> io::Result<()> {
    match entry.expires {
        Some(expires) => write!(out, ",\"expires\":{expires}"),
        None => Ok(()),
    }
}

/// A field with text, or one in base64 whose name says so.
fn write_bytes(out: &mut impl Write, name: &str, bytes: &[u8]) -> io::Result<()> {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            write!(out, "\"{name}\":")?;
            serde_json::to_writer(out, text).map_err(io::Error::from)
        }
        Err(_) => write!(out, "\"{name}_base64\":\"{}\"", STANDARD.encode(bytes)),
    }
}

/// A long one is not in memory as a whole, and has its bytes as they are stored.
fn write_large(
    out: &mut impl Write,
    kind: u8,
    value: &LargeValue,
    read: ReadLarge<'_>,
) -> Result<(), LineError> {
    if value.len <= TEXT_MAX {
        let mut bytes = Vec::new();
        read(value, &mut |part| bytes.extend_from_slice(part))?;
        return Ok(write_typed(out, kind, &bytes)?);
    }
    write_type(out, ValueType::from_code(kind))?;
    out.write_all(b",\"value_base64\":\"")?;
    let mut encoder = EncoderWriter::new(&mut *out, &STANDARD);
    let mut written = Ok(());
    let done = read(value, &mut |part| {
        if written.is_ok() {
            written = encoder.write_all(part);
        }
    });
    written?;
    done?;
    encoder.finish()?;
    drop(encoder);
    out.write_all(b"\"")?;
    Ok(())
}
