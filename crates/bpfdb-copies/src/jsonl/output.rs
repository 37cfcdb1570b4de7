//! Writes a copy as JSON lines.

use std::io::Write;

use serde::Serialize;

use super::line::{self, Head, Written};
use super::{CHECK, PART, VERSION};
use crate::error::{Result, io};
use crate::header::Header;
use crate::sink::{Key, Sink};
use crate::writer::Writer;

pub(crate) struct JsonlWriter<W> {
    out: W,
    /// Of all that was written.
    sum: u32,
    unchecked: u64,
    keys: u64,
    line: Vec<u8>,
    name: Vec<u8>,
    expires_at: Option<u64>,
    /// What was not written yet of the value.
    value: Vec<u8>,
    /// Bytes of the value that are to come.
    left: u64,
    /// Is the value written in parts?
    is_long: bool,
}

impl<W: Write> JsonlWriter<W> {
    pub(crate) fn new(out: W, header: &Header) -> Result<Self> {
        let mut writer = Self {
            out,
            sum: 0,
            unchecked: 0,
            keys: 0,
            line: Vec::new(),
            name: Vec::new(),
            expires_at: None,
            value: Vec::new(),
            left: 0,
            is_long: false,
        };
        writer.put(&Head {
            version: VERSION,
            time: header.time,
            timestamp: header.timestamp,
            keys: header.keys,
            expiring: header.expiring,
        })?;
        writer.send()?;
        Ok(writer)
    }

    fn put(&mut self, line: &impl Serialize) -> Result<()> {
        put(&mut self.line, line)
    }

    /// Writes the line, and sometimes one with a checksum.
    fn send(&mut self) -> Result<()> {
        self.out
            .write_all(&self.line)
            .map_err(io("write the copy"))?;
        self.sum = crc32c::crc32c_append(self.sum, &self.line);
        self.unchecked += self.line.len() as u64;
        self.line.clear();
        Ok(())
    }

    fn put_check(&mut self, word: &str) -> Result<()> {
        let line = line::check(word, self.keys, self.sum);
        self.line.extend_from_slice(line.as_bytes());
        self.send()?;
        self.unchecked = 0;
        Ok(())
    }

    fn put_value(&mut self) -> Result<()> {
        let line = if self.is_long {
            Written::part(&self.value)
        } else {
            Written::entry(&self.name, &self.value, self.expires_at)
        };
        put(&mut self.line, &line)?;
        self.value.clear();
        self.send()?;
        if self.unchecked >= CHECK {
            self.put_check(line::CHECK)?;
        }
        Ok(())
    }
}

fn put(out: &mut Vec<u8>, line: &impl Serialize) -> Result<()> {
    serde_json::to_writer(&mut *out, line).map_err(|error| io("write the copy")(error.into()))?;
    out.push(b'\n');
    Ok(())
}

impl<W: Write> Sink for JsonlWriter<W> {
    fn key(&mut self, key: &Key<'_>) -> Result<()> {
        self.keys += 1;
        self.name.clear();
        self.name.extend_from_slice(key.name);
        self.expires_at = key.expires_at;
        self.left = key.len;
        self.is_long = key.len > PART as u64;
        if self.is_long {
            self.put(&Written::long(key.name, key.len, key.expires_at))?;
            self.send()
        } else if key.len == 0 {
            self.put_value()
        } else {
            Ok(())
        }
    }

    fn part(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PART - self.value.len()));
            self.value.extend_from_slice(now);
            self.left -= now.len() as u64;
            bytes = later;
            if self.left == 0 || self.value.len() == PART {
                self.put_value()?;
            }
        }
        Ok(())
    }
}

impl<W: Write> Writer for JsonlWriter<W> {
    fn finish(mut self: Box<Self>) -> Result<()> {
        self.put_check(line::END)?;
        self.out.flush().map_err(io("write the copy"))
    }
}
