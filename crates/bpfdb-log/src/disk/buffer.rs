//! Memory from which a file can be written without the page cache.

use crate::format::layout::BLOCK;

/// Bytes that begin at a multiple of a block in memory, as O_DIRECT demands.
pub struct AlignedBuffer {
    /// Never grows in place, so what was aligned stays so.
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        let bytes = vec![0; len + BLOCK];
        // A pointer to bytes can be aligned to anything: align_offset never gives up.
        let start = bytes.as_ptr().align_offset(BLOCK);
        Self { bytes, start, len }
    }

    /// Makes it `len` bytes long. Its contents are then any.
    pub fn resize(&mut self, len: usize) {
        if self.start + len <= self.bytes.len() {
            self.len = len;
        } else {
            *self = Self::zeroed(len);
        }
    }
}

impl std::ops::Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl std::ops::DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

impl From<&[u8]> for AlignedBuffer {
    fn from(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_aligned() {
        let mut buffer = AlignedBuffer::zeroed(1);
        for len in [1, BLOCK, 3 * BLOCK, BLOCK] {
            buffer.resize(len);
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr().addr() % BLOCK, 0);
        }
    }
}
