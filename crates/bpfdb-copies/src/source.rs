//! Bytes of a file, one after the other, with the place where the reader is.
//!
//! Invariant: no length that the file states makes the reader allocate memory. Whatever is
//! collected is bounded by the caller, and grows as bytes come.

use std::io::{ErrorKind, Read};

use crate::crc64::Crc64;
use crate::error::{Error, Result, io};

/// Bytes that are read at once.
const CHUNK: usize = 1 << 18;

/// Where the bytes come from.
pub(crate) trait Input {
    /// Replaces what is in `buffer` by some of the bytes that follow; by none at the end.
    fn more(&mut self, buffer: &mut Vec<u8>) -> Result<()>;

    /// Where in the file the byte is that has this number.
    fn place(&self, number: u64) -> u64 {
        number
    }
}

/// The file itself.
#[derive(Debug)]
pub(crate) struct Plain<R>(pub(crate) R);

impl<R: Read> Input for Plain<R> {
    fn more(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        buffer.resize(CHUNK, 0);
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(io("read the file")(error)),
                Ok(got) => {
                    buffer.truncate(got);
                    return Ok(());
                }
            }
        }
    }
}

/// Bytes in memory.
#[derive(Debug)]
pub(crate) struct Slice<'a>(pub(crate) &'a [u8]);

impl Input for Slice<'_> {
    fn more(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        let (next, rest) = self.0.split_at(self.0.len().min(CHUNK));
        buffer.clear();
        buffer.extend_from_slice(next);
        self.0 = rest;
        Ok(())
    }
}

pub(crate) struct Source<I> {
    pub(crate) input: I,
    buffer: Vec<u8>,
    /// The next byte in the buffer.
    at: usize,
    /// Number of the buffer's first byte.
    base: u64,
    /// Of all bytes up to `summed` in the buffer, if it is asked for.
    sum: Option<Crc64>,
    summed: usize,
}

impl<R: Read> Source<Plain<R>> {
    pub(crate) fn plain(input: R) -> Self {
        Self::new(Plain(input))
    }
}

impl<I: Input> Source<I> {
    pub(crate) fn new(input: I) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            at: 0,
            base: 0,
            sum: None,
            summed: 0,
        }
    }

    /// From here on, what is read counts for [`Source::sum`].
    pub(crate) fn begin_sum(&mut self) {
        self.sum = Some(Crc64::new());
        self.summed = self.at;
    }

    /// The checksum of what was read since it was begun.
    pub(crate) fn sum(&mut self) -> u64 {
        self.settle();
        self.sum.as_ref().map_or(0, Crc64::value)
    }

    fn settle(&mut self) {
        if let Some(sum) = &mut self.sum {
            sum.add(&self.buffer[self.summed..self.at]);
            self.summed = self.at;
        }
    }

    /// Where the reader is.
    pub(crate) fn offset(&self) -> u64 {
        self.input.place(self.base + self.at as u64)
    }

    /// Some of the bytes that follow; none at the end.
    pub(crate) fn peek(&mut self) -> Result<&[u8]> {
        if self.at == self.buffer.len() {
            self.settle();
            self.base += self.buffer.len() as u64;
            self.input.more(&mut self.buffer)?;
            self.at = 0;
            self.summed = 0;
        }
        Ok(&self.buffer[self.at..])
    }

    /// So many of the bytes that follow, or more; fewer if there are no more. Only at the
    /// beginning.
    pub(crate) fn peek_at_least(&mut self, count: usize) -> Result<&[u8]> {
        debug_assert!(self.base == 0 && self.at == 0);
        let mut more = Vec::new();
        while self.buffer.len() < count {
            self.input.more(&mut more)?;
            if more.is_empty() {
                break;
            }
            self.buffer.extend_from_slice(&more);
        }
        Ok(&self.buffer)
    }

    pub(crate) fn is_at_end(&mut self) -> Result<bool> {
        Ok(self.peek()?.is_empty())
    }

    fn some(&mut self) -> Result<&[u8]> {
        if self.is_at_end()? {
            return Err(Error::Cut {
                offset: self.offset(),
            });
        }
        Ok(&self.buffer[self.at..])
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        let byte = self.some()?[0];
        self.at += 1;
        Ok(byte)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        let mut filled = 0;
        while filled < N {
            let some = self.some()?;
            let count = some.len().min(N - filled);
            bytes[filled..filled + count].copy_from_slice(&some[..count]);
            self.at += count;
            filled += count;
        }
        Ok(bytes)
    }

    /// Shows the next `len` bytes, in parts.
    pub(crate) fn parts(
        &mut self,
        len: u64,
        mut show: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut left = len;
        while left > 0 {
            let some = self.some()?;
            let count = usize::try_from(left).map_or(some.len(), |left| left.min(some.len()));
            show(&some[..count])?;
            self.at += count;
            left -= count as u64;
        }
        Ok(())
    }

    pub(crate) fn skip(&mut self, len: u64) -> Result<()> {
        self.parts(len, |_| Ok(()))
    }

    /// Reads a line of at most `most` bytes, its end included, into `line`. False: it is
    /// longer.
    ///
    /// # Errors
    /// [`Error::Cut`] if there is no end of a line.
    pub(crate) fn line(&mut self, line: &mut Vec<u8>, most: usize) -> Result<bool> {
        line.clear();
        loop {
            let some = self.some()?;
            let end = some.iter().position(|&byte| byte == b'\n');
            let count = end.map_or(some.len(), |end| end + 1);
            if line.len() + count > most {
                return Ok(false);
            }
            line.extend_from_slice(&some[..count]);
            self.at += count;
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}
