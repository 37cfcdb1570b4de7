//! Reads a copy of JSON lines.

use std::io::Read;

use super::line::{self, Head, Line};
use super::{LINE_MAX, PART, VERSION};
use crate::error::{Result, damaged, foreign};
use crate::limits::{KEY_MAX, TIME_MAX, VALUE_MAX};
use crate::sink::{Contents, Key, Sink};
use crate::source::{Plain, Source};

struct Reader<'a, R> {
    source: Source<Plain<R>>,
    line: Vec<u8>,
    /// Where the line begins.
    at: u64,
    /// Of all lines before.
    sum: u32,
    /// Where the bytes begin that no checksum was compared for.
    unchecked: u64,
    sink: &'a mut dyn Sink,
    contents: &'a mut Contents,
    /// Bytes of a long value that are to come.
    left: u64,
}

/// Gives everything to `sink`. `source` stands at the beginning.
pub(crate) fn read<R: Read>(
    source: Source<Plain<R>>,
    sink: &mut dyn Sink,
    contents: &mut Contents,
) -> Result<()> {
    let mut reader = Reader {
        source,
        line: Vec::new(),
        at: 0,
        sum: 0,
        unchecked: 0,
        sink,
        contents,
        left: 0,
    };
    reader.next()?;
    reader.head()?;
    loop {
        reader.next()?;
        if reader.is_check(line::END) {
            break;
        }
        reader.step()?;
    }
    reader.compare(line::END)?;
    if !reader.source.is_at_end()? {
        return Err(damaged(reader.source.offset(), "something follows the end"));
    }
    Ok(())
}

impl<R: Read> Reader<'_, R> {
    fn next(&mut self) -> Result<()> {
        self.sum = crc32c::crc32c_append(self.sum, &self.line);
        self.at = self.source.offset();
        if self.source.line(&mut self.line, LINE_MAX)? {
            return Ok(());
        }
        Err(damaged(self.at, "a line is longer than any may be"))
    }

    fn head(&mut self) -> Result<()> {
        let head: Option<Head> = serde_json::from_slice(&self.line).ok();
        let Some(head) = head else {
            return Err(damaged(0, "the first line is not that of a copy"));
        };
        if head.version != VERSION {
            let what = format!("version {} of the form; {VERSION} is known", head.version);
            return Err(foreign(0, what));
        }
        self.contents.time = Some(head.time);
        Ok(())
    }

    fn is_check(&self, word: &str) -> bool {
        let rest = self.line.strip_prefix(b"{\"");
        let rest = rest.and_then(|rest| rest.strip_prefix(word.as_bytes()));
        rest.is_some_and(|rest| rest.starts_with(b"\":"))
    }

    /// Is the checksum that the line states that of all lines before?
    fn compare(&mut self, word: &str) -> Result<()> {
        if self.left > 0 {
            return Err(damaged(self.at, "the value before is not whole"));
        }
        let right = line::check(word, self.contents.keys, self.sum);
        if self.line == right.as_bytes() {
            self.unchecked = self.source.offset();
            return Ok(());
        }
        let (from, to) = (self.unchecked, self.source.offset());
        Err(damaged(
            from,
            format!("the bytes from there to {to} do not have their checksum"),
        ))
    }

    fn step(&mut self) -> Result<()> {
        // A checksum may also stand between the parts of a value.
        if self.is_check(line::CHECK) {
            let left = std::mem::take(&mut self.left);
            self.compare(line::CHECK)?;
            self.left = left;
            return Ok(());
        }
        match Line::parse(&self.line) {
            Some(Line::Part(bytes)) if self.left > 0 => self.part(&bytes),
            Some(Line::Entry {
                name,
                value,
                expires,
            }) if self.left == 0 && value.len() <= PART => {
                self.key(&name, value.len() as u64, expires)?;
                self.left = value.len() as u64;
                self.part(&value)
            }
            Some(Line::Long {
                name,
                bytes,
                expires,
            }) if self.left == 0 && bytes > PART as u64 => {
                self.left = bytes;
                self.key(&name, bytes, expires)
            }
            _ => Err(damaged(self.at, "no line of a copy, or not in this place")),
        }
    }

    fn key(&mut self, name: &[u8], len: u64, expires_at: Option<u64>) -> Result<()> {
        if name.is_empty() || name.len() > KEY_MAX || len > VALUE_MAX {
            return Err(damaged(
                self.at,
                "a key or a value is longer than any may be",
            ));
        }
        if expires_at.is_some_and(|time| time > TIME_MAX) {
            return Err(damaged(self.at, "a time is later than any may be"));
        }
        let key = Key {
            name,
            len,
            expires_at,
        };
        self.contents.count(&key);
        self.sink.key(&key)
    }

    fn part(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Err(damaged(self.at, "a value is longer than it should be"));
        };
        self.left = left;
        if bytes.is_empty() {
            return Ok(());
        }
        self.sink.part(bytes)
    }
}
