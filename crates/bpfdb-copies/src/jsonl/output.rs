//! Writes a copy as JSON lines.

use std::io::Write;

use bpfdb_values::limits::Kind;
use bpfdb_values::run::Run;
use serde::Serialize;

use super::line::{self, Fields, Head};
use super::{CHECK, ENTRY, PART, VERSION};
use crate::collection::{Content, Fault, score_of, words_of_stream};
use crate::error::{Error, Result, io};
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
    /// A collection or a stream is written when all of it has come.
    content: Content,
}

/// A key and a value, as a run has them.
type Entry<'a> = (&'a [u8], &'a [u8]);

/// Only another program can have set it.
fn corrupt() -> Error {
    Error::Snapshot(bpfdb::Status::Corrupt)
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
            content: Content::String,
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

    /// Writes the line.
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
            Fields::part(&self.value)
        } else {
            Fields::key(&self.name, self.expires_at).with_value(&self.value)
        };
        put(&mut self.line, &line)?;
        self.value.clear();
        self.send_checked()
    }

    /// Writes the line, and now and then one with a checksum behind it.
    fn send_checked(&mut self) -> Result<()> {
        self.send()?;
        if self.unchecked >= CHECK {
            self.put_check(line::CHECK)?;
        }
        Ok(())
    }

    fn is_stream(&self) -> bool {
        self.content == Content::Stream
    }

    fn put_collection(&mut self, kind: Kind, run: &[u8]) -> Result<()> {
        let run = Run::parse(run).map_err(|_| corrupt())?;
        let entries = run.iter().collect::<Result<Vec<Entry<'_>>, _>>();
        let entries = entries.map_err(|_| corrupt())?;
        if entries.iter().map(size_of_entry).sum::<usize>() <= PART {
            let is_stream = self.is_stream();
            let head = Fields::key(&self.name, self.expires_at);
            line_of(&mut self.line, head, kind, is_stream, &entries)?;
            return self.send_checked();
        }
        let head = Fields::key(&self.name, self.expires_at);
        let head = head.with_count(kind, self.is_stream(), entries.len() as u64);
        put(&mut self.line, &head)?;
        self.send_checked()?;
        self.put_entries(kind, &entries)
    }

    /// A stream, whose bytes are these: as words, or as it is if they are more than a value may have.
    fn put_stream(&mut self, bytes: &[u8]) -> Result<()> {
        match words_of_stream(bytes) {
            Ok(words) => self.put_collection(Kind::List, &words),
            Err(Fault::TooLong) => {
                let head = Fields::key(&self.name, self.expires_at);
                put(&mut self.line, &head.with_bytes(bytes.len() as u64, true))?;
                self.send()?;
                for part in bytes.chunks(PART) {
                    put(&mut self.line, &Fields::part(part))?;
                    self.send_checked()?;
                }
                Ok(())
            }
            Err(_) => Err(corrupt()),
        }
    }

    /// The whole value, if this is the last part of it.
    fn whole(&mut self, part: &[u8]) -> Option<Vec<u8>> {
        self.value.extend_from_slice(part);
        self.left -= part.len() as u64;
        (self.left == 0).then(|| std::mem::take(&mut self.value))
    }

    /// A part of a string.
    fn put_part(&mut self, mut bytes: &[u8]) -> Result<()> {
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

    /// As many in a line as there is room for.
    fn put_entries(&mut self, kind: Kind, mut entries: &[Entry<'_>]) -> Result<()> {
        while let Some(first) = entries.first() {
            let count = count_in_line(entries);
            let (now, later) = entries.split_at(count.max(1));
            entries = later;
            if count == 0 {
                self.put_long_entry(kind, *first)?;
                continue;
            }
            let is_stream = self.is_stream();
            line_of(&mut self.line, Fields::default(), kind, is_stream, now)?;
            self.send_checked()?;
        }
        Ok(())
    }

    /// Its key, and its value behind it, but for a score.
    fn put_long_entry(&mut self, kind: Kind, (key, value): Entry<'_>) -> Result<()> {
        let lens = [key.len() as u64, value.len() as u64];
        let (line, value) = match kind {
            Kind::List | Kind::Set => (Fields::long_entry(lens[..1].to_vec(), None), &[][..]),
            Kind::Hash => (Fields::long_entry(lens.to_vec(), None), value),
            Kind::SortedSet => {
                let score = score_of(value).ok_or_else(corrupt)?;
                (Fields::long_entry(lens[..1].to_vec(), Some(score)), &[][..])
            }
        };
        put(&mut self.line, &line)?;
        self.send_checked()?;
        for part in key.chunks(PART).chain(value.chunks(PART)) {
            put(&mut self.line, &Fields::part(part))?;
            self.send_checked()?;
        }
        Ok(())
    }
}

/// A line with entries, or with words of a stream.
fn line_of<'a>(
    out: &mut Vec<u8>,
    fields: Fields<'a>,
    kind: Kind,
    is_stream: bool,
    entries: &[Entry<'a>],
) -> Result<()> {
    let line = fields.with_entries(kind, entries).ok_or_else(corrupt)?;
    put(out, &if is_stream { line.into_stream() } else { line })
}

fn size_of_entry((key, value): &Entry<'_>) -> usize {
    key.len() + value.len() + ENTRY
}

/// How many of these entries a line has room for; 0: the first one is too long for any.
fn count_in_line(entries: &[Entry<'_>]) -> usize {
    let mut left = PART;
    let fits = |entry: &&Entry<'_>| {
        let rest = left.checked_sub(size_of_entry(entry));
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    entries.iter().take_while(fits).count()
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
        self.content = key.content()?;
        self.is_long = self.content == Content::String && key.len > PART as u64;
        if self.is_long {
            let line = Fields::key(key.name, key.expires_at);
            self.put(&line.with_bytes(key.len, false))?;
            self.send()
        } else if key.len == 0 {
            self.put_value()
        } else {
            Ok(())
        }
    }

    fn part(&mut self, bytes: &[u8]) -> Result<()> {
        match self.content {
            Content::String => self.put_part(bytes),
            Content::Collection(kind) => match self.whole(bytes) {
                Some(run) => self.put_collection(kind, &run),
                None => Ok(()),
            },
            Content::Stream => match self.whole(bytes) {
                Some(stream) => self.put_stream(&stream),
                None => Ok(()),
            },
        }
    }
}

impl<W: Write> Writer for JsonlWriter<W> {
    fn finish(mut self: Box<Self>) -> Result<()> {
        self.put_check(line::END)?;
        self.out.flush().map_err(io("write the copy"))
    }
}
