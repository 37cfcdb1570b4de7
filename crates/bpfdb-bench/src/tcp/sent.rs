//! Batches that are written while they are sent.

use super::block::{Batches, Replies};

/// Adds a request to what is sent.
pub(crate) type Writer = Box<dyn FnMut(&mut Vec<u8>) + Send>;

/// Batches that are written when they are sent: every phone has its turn.
pub(crate) struct Sent<R> {
    write: Writer,
    pipeline: u32,
    replies: usize,
    /// Makes what reads the replies of a connection.
    reader: R,
    bytes: Vec<u8>,
}

impl<R> Sent<R> {
    /// `commands`: in what is written at once.
    pub(crate) fn new(write: Writer, pipeline: u32, commands: usize, reader: R) -> Self {
        Self {
            write,
            pipeline,
            replies: commands * pipeline as usize,
            reader,
            bytes: Vec::new(),
        }
    }
}

impl<R, T> Batches for Sent<R>
where
    R: Fn() -> T + Send,
    T: Replies,
{
    type Replies = T;

    fn next(&mut self) -> &[u8] {
        self.bytes.clear();
        for _ in 0..self.pipeline {
            (self.write)(&mut self.bytes);
        }
        &self.bytes
    }

    fn replies(&self) -> usize {
        self.replies
    }

    fn reader(&self) -> T {
        (self.reader)()
    }
}
