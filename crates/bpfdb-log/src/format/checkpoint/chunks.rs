//! Reads a file once from its beginning to its end, in chunks, and gives out parts of them.
//!
//! The memory of a chunk is used again when no part of it is in use any more. New memory would cost
//! as much as the reading: the system fills it with zeros first.

use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::disk::DiskFile;
use crate::disk::buffer::AlignedBuffer;

/// Bytes that are read at once: enough for a disk to be fast with one request at a time.
const CHUNK: usize = 4 << 20;

/// Bytes of a file. They stay as long as this is there.
#[derive(Clone)]
pub(super) struct Part {
    chunk: Arc<AlignedBuffer>,
    range: Range<usize>,
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.chunk[self.range.clone()]
    }
}

/// A file that is read on.
pub(super) struct Chunks<F> {
    file: F,
    /// Bytes of the file that are to be read.
    end: u64,
    /// The chunk that was read last, and where in the file it begins.
    current: Arc<AlignedBuffer>,
    begin: u64,
    /// Those before it. A reader may have parts of them still.
    before: Vec<Arc<AlignedBuffer>>,
    /// Up to here something cannot be read: no more is tried at once than is asked for.
    careful_up_to: u64,
}

impl<F: DiskFile> Chunks<F> {
    /// `file` is best opened with [`crate::Disk::open_for_scan`].
    pub(super) fn new(file: F, end: u64) -> Self {
        Self {
            file,
            end,
            current: Arc::new(AlignedBuffer::zeroed(0)),
            begin: 0,
            before: Vec::new(),
            careful_up_to: 0,
        }
    }

    /// The bytes of the file from `offset` on, a multiple of a block. `None`: it has fewer.
    pub(super) fn read(&mut self, offset: u64, len: usize) -> io::Result<Option<Part>> {
        if self.end.saturating_sub(offset) < len as u64 {
            return Ok(None);
        }
        if let Some(part) = self.part(offset, len) {
            return Ok(Some(part));
        }
        self.read_ahead(offset, len)?;
        Ok(self.part(offset, len))
    }

    /// A chunk, or only `len` bytes if there is something in it that cannot be read: that may be
    /// behind what is asked for.
    fn read_ahead(&mut self, offset: u64, len: usize) -> io::Result<()> {
        let left = usize::try_from(self.end - offset).unwrap_or(usize::MAX);
        let chunk = left.min(CHUNK.max(len));
        if offset >= self.careful_up_to {
            match self.read_chunk(offset, chunk) {
                Ok(()) => return Ok(()),
                Err(_) => self.careful_up_to = offset + chunk as u64,
            }
        }
        self.read_chunk(offset, len)
    }

    /// Of the chunk that was read last.
    fn part(&self, offset: u64, len: usize) -> Option<Part> {
        let start = usize::try_from(offset.checked_sub(self.begin)?).ok()?;
        let range = start..start.checked_add(len)?;
        (range.end <= self.current.len()).then(|| Part {
            chunk: self.current.clone(),
            range,
        })
    }

    fn read_chunk(&mut self, offset: u64, len: usize) -> io::Result<()> {
        let mut chunk = self.free_chunk();
        let bytes = Arc::get_mut(&mut chunk).expect("nobody else has it");
        bytes.resize(len);
        let read = self.file.read_whole(offset, bytes);
        bytes.resize(*read.as_ref().unwrap_or(&0));
        self.current = chunk;
        self.begin = offset;
        read.map(drop)
    }

    /// A chunk of which no part is in use.
    fn free_chunk(&mut self) -> Arc<AlignedBuffer> {
        let none = Arc::new(AlignedBuffer::zeroed(0));
        self.before.push(std::mem::replace(&mut self.current, none));
        let is_free = |chunk: &mut Arc<AlignedBuffer>| Arc::get_mut(chunk).is_some();
        match self.before.iter_mut().position(is_free) {
            Some(free) => self.before.swap_remove(free),
            None => Arc::new(AlignedBuffer::zeroed(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::disk::is_unreadable;
    use crate::format::layout::BLOCK;

    const BLOCKS: usize = 5000;

    /// Each block has its number in each of its bytes. One of them may be unreadable.
    struct Numbered {
        unreadable: Option<usize>,
        /// Reads that have failed.
        failures: Cell<u32>,
    }

    impl DiskFile for Numbered {
        fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
            let first = offset as usize / BLOCK;
            for (number, block) in bytes.chunks_mut(BLOCK).enumerate() {
                if self.unreadable == Some(first + number) {
                    self.failures.set(self.failures.get() + 1);
                    return Err(io::Error::from_raw_os_error(5));
                }
                block.fill((first + number) as u8);
            }
            Ok(bytes.len())
        }

        fn write(&self, _: u64, _: &[u8]) -> io::Result<usize> {
            unreachable!("it is only read")
        }

        fn flush(&self) -> io::Result<()> {
            unreachable!("it is only read")
        }

        fn allocate(&self, _: u64) -> io::Result<()> {
            unreachable!("it is only read")
        }

        fn size(&self) -> io::Result<u64> {
            Ok((BLOCKS * BLOCK) as u64)
        }
    }

    fn chunks(unreadable: Option<usize>) -> Chunks<Numbered> {
        let file = Numbered {
            unreadable,
            failures: Cell::new(0),
        };
        Chunks::new(file, (BLOCKS * BLOCK) as u64)
    }

    fn block(chunks: &mut Chunks<Numbered>, number: usize) -> Part {
        let part = chunks.read((number * BLOCK) as u64, BLOCK).unwrap();
        part.expect("the file has so many")
    }

    #[test]
    fn parts_stay_as_they_are_while_others_are_read() {
        let mut chunks = chunks(None);
        let parts: Vec<Part> = (0..BLOCKS).map(|n| block(&mut chunks, n)).collect();
        for (number, part) in parts.iter().enumerate() {
            assert!(part.iter().all(|&byte| byte == number as u8), "{number}");
            assert_eq!(part.as_ptr().addr() % BLOCK, 0);
        }
        assert_eq!(chunks.before.len() + 1, (BLOCKS * BLOCK).div_ceil(CHUNK));
    }

    #[test]
    fn memory_is_used_again() {
        let mut chunks = chunks(None);
        for number in 0..BLOCKS {
            let part = block(&mut chunks, number);
            assert_eq!(part[BLOCK - 1], number as u8);
        }
        assert!(chunks.before.len() <= 1, "{}", chunks.before.len());
    }

    #[test]
    fn a_part_may_be_longer_than_a_chunk_and_not_than_the_file() {
        let mut chunks = chunks(None);
        let long = chunks.read(BLOCK as u64, CHUNK + BLOCK).unwrap().unwrap();
        assert_eq!((long.len(), long[0], long[BLOCK]), (CHUNK + BLOCK, 1, 2));
        let last = ((BLOCKS - 1) * BLOCK) as u64;
        assert!(chunks.read(last, BLOCK).unwrap().is_some());
        assert!(chunks.read(last, BLOCK + 1).unwrap().is_none());
        assert!(chunks.read(last + 2 * BLOCK as u64, 1).unwrap().is_none());
    }

    /// What is before a block that cannot be read is given out nevertheless: a check says first
    /// what it finds first.
    #[test]
    fn only_the_part_that_has_an_unreadable_block_fails() {
        let mut chunks = chunks(Some(7));
        for number in 0..7 {
            assert_eq!(block(&mut chunks, number)[0], number as u8);
        }
        let failed = chunks.read(7 * BLOCK as u64, BLOCK);
        assert!(failed.is_err_and(|error| is_unreadable(&error)));
        for number in 8..BLOCKS {
            assert_eq!(block(&mut chunks, number)[0], number as u8);
        }
        // Each may take the device seconds: once ahead, and once for itself.
        assert_eq!(chunks.file.failures.get(), 2);
    }
}
