//! Writes a file of Redis.

use std::io::Write;

use bpfdb::Database;
use bpfdb_values::limits::Kind;

use super::collection::write;
use super::string::{self, INTEGER_MAX};
use super::{AUX, DATABASE, END, EXPIRES_MS, MAGIC, RESIZE, TYPE_STRING, VERSION_WRITTEN};
use super::{functions, stream};
use crate::collection::Content;
use crate::crc64::Crc64;
use crate::error::{Error, Result, io};
use crate::header::Header;
use crate::sink::{Key, Sink};
use crate::writer::Writer;

pub(crate) struct RdbWriter<W> {
    out: W,
    sum: Crc64,
    bytes: Vec<u8>,
    /// A value that may be an integer, until all of it has come.
    short: Vec<u8>,
    /// Bytes of that value.
    short_len: usize,
    /// The libraries of functions, as far as they have come, and how many bytes they have.
    functions: Vec<u8>,
    functions_len: usize,
    /// A collection, until all of it has come.
    collection: Option<Coming>,
    /// That of the key before.
    database: Database,
}

/// A collection of which a part has come.
struct Coming {
    /// `None`: a stream.
    kind: Option<Kind>,
    name: Vec<u8>,
    run: Vec<u8>,
    len: usize,
}

impl<W: Write> RdbWriter<W> {
    pub(crate) fn new(out: W, header: &Header) -> Result<Self> {
        let mut writer = Self {
            out,
            sum: Crc64::new(),
            bytes: Vec::new(),
            short: Vec::new(),
            short_len: 0,
            functions: Vec::new(),
            functions_len: 0,
            collection: None,
            database: Database::default(),
        };
        let bytes = &mut writer.bytes;
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(format!("{VERSION_WRITTEN:04}").as_bytes());
        put_aux(bytes, "bpfdb-ver", env!("CARGO_PKG_VERSION"));
        put_aux(bytes, "redis-bits", "64");
        put_aux(bytes, "ctime", &(header.time / 1000).to_string());
        bytes.push(DATABASE);
        string::put_len(bytes, 0);
        bytes.push(RESIZE);
        string::put_len(bytes, header.keys);
        string::put_len(bytes, header.expiring);
        writer.send()?;
        Ok(writer)
    }

    fn send(&mut self) -> Result<()> {
        self.sum.add(&self.bytes);
        self.out
            .write_all(&self.bytes)
            .map_err(io("write the copy"))?;
        self.bytes.clear();
        Ok(())
    }

    /// They are no key in a file of Redis.
    fn put_functions(&mut self) -> Result<()> {
        self.functions_len = 0;
        let texts = functions::decode(&std::mem::take(&mut self.functions));
        // Only another program can have written that.
        let texts = texts.map_err(|_| Error::Snapshot(bpfdb::Status::Corrupt))?;
        for text in texts {
            functions::put(&mut self.bytes, &text);
            self.send()?;
        }
        Ok(())
    }

    /// How it is written is known when all of it is there.
    fn put_collection(&mut self, whole: &Coming) -> Result<()> {
        let written = match whole.kind {
            Some(kind) => {
                write::write(kind, &whole.run).map(|written| (written.number, written.bytes))
            }
            None => stream::write(&whole.run).map(|bytes| (stream::WRITTEN, bytes)),
        };
        // Only another program can have set that.
        let written = written.map_err(|_| Error::Snapshot(bpfdb::Status::Corrupt));
        let (number, bytes) = written?;
        self.bytes.push(number);
        string::put(&mut self.bytes, &whole.name);
        self.send()?;
        self.sum.add(&bytes);
        let out = self.out.write_all(&bytes);
        out.map_err(io("write the copy"))
    }

    /// A string of `len` bytes, of which none has come.
    fn begin_string(&mut self, name: &[u8], len: u64) -> Result<()> {
        self.bytes.push(TYPE_STRING);
        string::put(&mut self.bytes, name);
        self.short.clear();
        self.short_len = 0;
        match len {
            0 => self.put_short(),
            len if len <= INTEGER_MAX as u64 => {
                self.short_len = len as usize;
                Ok(())
            }
            len => {
                string::put_len(&mut self.bytes, len);
                self.send()
            }
        }
    }

    fn put_short(&mut self) -> Result<()> {
        string::put(&mut self.bytes, &self.short);
        self.send()
    }
}

fn put_aux(bytes: &mut Vec<u8>, name: &str, value: &str) {
    bytes.push(AUX);
    string::put(bytes, name.as_bytes());
    string::put(bytes, value.as_bytes());
}

impl<W: Write> Sink for RdbWriter<W> {
    fn key(&mut self, key: &Key<'_>) -> Result<()> {
        if key.name == bpfdb::FUNCTIONS_KEY && key.len > 0 {
            self.functions_len = key.len as usize;
            return Ok(());
        }
        let content = key.content()?;
        let (database, name) = Database::split(key.name).unwrap_or((Database::default(), key.name));
        let bytes = &mut self.bytes;
        if database != self.database {
            self.database = database;
            bytes.push(DATABASE);
            string::put_len(bytes, database.number() as u64);
        }
        if let Some(time) = key.expires_at {
            bytes.push(EXPIRES_MS);
            bytes.extend_from_slice(&time.to_le_bytes());
        }
        let kind = match content {
            Content::String => return self.begin_string(name, key.len),
            Content::Collection(kind) => Some(kind),
            Content::Stream => None,
        };
        self.collection = Some(Coming {
            kind,
            name: name.to_vec(),
            run: Vec::new(),
            len: key.len as usize,
        });
        Ok(())
    }

    fn part(&mut self, part: &[u8]) -> Result<()> {
        if self.functions_len > 0 {
            self.functions.extend_from_slice(part);
            if self.functions.len() == self.functions_len {
                self.put_functions()?;
            }
            return Ok(());
        }
        if let Some(mut coming) = self.collection.take() {
            coming.run.extend_from_slice(part);
            if coming.run.len() == coming.len {
                return self.put_collection(&coming);
            }
            self.collection = Some(coming);
            return Ok(());
        }
        if self.short_len == 0 {
            self.sum.add(part);
            return self.out.write_all(part).map_err(io("write the copy"));
        }
        self.short.extend_from_slice(part);
        if self.short.len() == self.short_len {
            self.put_short()?;
        }
        Ok(())
    }
}

impl<W: Write> Writer for RdbWriter<W> {
    fn finish(mut self: Box<Self>) -> Result<()> {
        self.bytes.push(END);
        self.send()?;
        let sum = self.sum.value().to_le_bytes();
        self.out.write_all(&sum).map_err(io("write the copy"))?;
        self.out.flush().map_err(io("write the copy"))
    }
}
