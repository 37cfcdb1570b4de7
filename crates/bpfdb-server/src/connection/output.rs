//! Bytes of replies that wait to be sent, in blocks: what was sent is given back block by block,
//! and what is long is not copied.

use std::collections::VecDeque;

/// Short replies are collected in blocks of so many bytes.
const BLOCK: usize = 64 * 1024;
/// Places for blocks that an empty queue may keep.
const PLACES_KEPT: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Output {
    /// None is empty.
    blocks: VecDeque<Vec<u8>>,
    /// Bytes of the first block that were sent.
    sent: usize,
    /// Bytes that were not sent.
    len: usize,
    /// Bytes that the blocks take.
    memory: usize,
    /// Some of what was queued since it was empty last is sent.
    is_begun: bool,
}

impl Output {
    /// Bytes that were not sent.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that it takes, those included that were sent and whose block is not done.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    pub(crate) fn push(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() || self.collect(&bytes) {
            return;
        }
        self.len += bytes.len();
        self.memory += bytes.capacity();
        self.blocks.push_back(bytes);
    }

    /// The same for bytes that others receive too.
    pub(crate) fn push_copy(&mut self, bytes: &[u8]) {
        if !self.collect(bytes) {
            self.push(bytes.to_vec());
        }
    }

    /// Adds bytes to the last block, if they fit.
    fn collect(&mut self, bytes: &[u8]) -> bool {
        let Some(last) = self.blocks.back_mut() else {
            return false;
        };
        if last.len() + bytes.len() > BLOCK {
            return false;
        }
        self.len += bytes.len();
        self.memory -= last.capacity();
        last.extend_from_slice(bytes);
        self.memory += last.capacity();
        true
    }

    /// What is to be sent next; empty if there is nothing.
    pub(crate) fn next(&self) -> &[u8] {
        self.blocks.front().map_or(&[], |block| &block[self.sent..])
    }

    /// So many bytes of [`next`](Self::next) were sent.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        self.len -= bytes;
        self.is_begun = self.len > 0;
        if self.blocks.front().map_or(0, Vec::len) == self.sent {
            let done = self.blocks.pop_front();
            self.memory -= done.map_or(0, |block| block.capacity());
            self.sent = 0;
        }
        if self.len == 0 {
            self.blocks.shrink_to(PLACES_KEPT);
        }
    }

    /// Drops what was not sent; true if the bytes that were sent may end within a reply.
    pub(crate) fn clear(&mut self) -> bool {
        std::mem::take(self).is_begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends everything, `step` bytes at a time.
    fn sent(output: &mut Output, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while output.len() > 0 {
            let some = output.next().len().min(step);
            all.extend_from_slice(&output.next()[..some]);
            output.advance(some);
        }
        all
    }

    #[test]
    fn bytes_leave_in_order_and_their_memory_with_them() {
        let mut output = Output::default();
        let pieces = [10, 0, BLOCK - 10, 1, 3 * BLOCK, 5, 5];
        let mut expected = Vec::new();
        for (at, &len) in pieces.iter().enumerate() {
            let piece = vec![at as u8; len];
            expected.extend_from_slice(&piece);
            output.push(piece);
        }
        assert_eq!(output.len(), expected.len());
        assert!(output.memory() >= expected.len());
        assert!(sent(&mut output, 1000) == expected);
        assert_eq!((output.len(), output.memory()), (0, 0));
        assert_eq!(output.next(), b"");
    }

    /// A queue that is never empty does not keep what has left it.
    #[test]
    fn what_was_sent_is_given_back() {
        let mut output = Output::default();
        output.push(vec![0; 1000]);
        for _ in 0..10_000 {
            output.push(vec![0; 1000]);
            let some = output.next().len().min(1000);
            output.advance(some);
        }
        assert!(output.memory() < 4 * BLOCK, "{}", output.memory());
    }

    #[test]
    fn what_is_cleared_may_have_been_begun() {
        let mut output = Output::default();
        output.push(vec![0; 10]);
        assert!(!output.clear());
        output.push(vec![0; 10]);
        output.advance(3);
        assert!(output.clear());
        assert_eq!((output.len(), output.memory()), (0, 0));
    }
}
