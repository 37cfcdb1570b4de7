//! Mutations: of bytes, and of files whose checksums are set right afterwards.

use bpfdb_log::BLOCK;
use bpfdb_log::simulation::Random;

use crate::it::common::files::{seal, seal_directory, seal_one};
use crate::it::fuzz::archive::{pack, unpack};

/// What the bytes of a target are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A block with version and checksum: a control slot, or a segment's header.
    Block,
    /// A seed, and a batch.
    Batch,
    Plain,
    Directory,
}

/// Numbers at which arithmetic goes wrong.
const NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    15,
    16,
    80,
    BLOCK as u64,
    2 * BLOCK as u64,
    1 << 22,
    (1 << 24) - 1,
    u32::MAX as u64,
    1 << 62,
    1 << 63,
    u64::MAX,
];

pub(crate) struct Mutator {
    random: Random,
}

impl Mutator {
    pub(crate) fn new(random: Random) -> Self {
        Self { random }
    }

    pub(crate) fn mutate(&mut self, form: Form, pool: &[Vec<u8>]) -> Vec<u8> {
        let mut input = pool[self.place(pool.len())].clone();
        if form == Form::Directory {
            return self.mutate_directory(&input);
        }
        self.change_some(&mut input);
        let right = self.random.once_in(2);
        match form {
            Form::Block if right => seal(&mut input),
            Form::Batch if right => seal_batch(&mut input),
            _ => {}
        }
        input
    }

    /// 0 to `len` - 1, or 0.
    fn place(&mut self, len: usize) -> usize {
        self.random.below(len.max(1) as u64) as usize
    }

    fn change_some(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.random.below(3) {
            self.change(bytes);
        }
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        // Most of what means something is at the beginning of a block.
        let mut at = self.place(bytes.len());
        if !self.random.once_in(3) {
            at = at / BLOCK * BLOCK + self.place(192);
        }
        let number = NUMBERS[self.place(NUMBERS.len())];
        match self.random.below(8) {
            0 | 1 => put(bytes, at, &[1 << self.random.below(8)], |old, new| {
                old ^ new
            }),
            2 => put(bytes, at, &[self.random.draw() as u8], |_, new| new),
            3 => put(bytes, at & !7, &number.to_le_bytes(), |_, new| new),
            4 => put(bytes, at & !3, &(number as u32).to_le_bytes(), |_, new| new),
            5 => put(bytes, at & !7, &[1], |old, _| old.wrapping_add(1)),
            6 => bytes.truncate(at),
            _ => self.copy_block(bytes),
        }
    }

    fn copy_block(&mut self, bytes: &mut [u8]) {
        let blocks = bytes.len() / BLOCK;
        if blocks > 0 {
            let (from, to) = (self.place(blocks) * BLOCK, self.place(blocks) * BLOCK);
            bytes.copy_within(from..from + BLOCK, to);
        }
    }

    fn mutate_directory(&mut self, input: &[u8]) -> Vec<u8> {
        let mut files = unpack(input);
        let chosen = self.place(files.len());
        match self.random.below(20) {
            0 if !files.is_empty() => drop(files.remove(chosen)),
            1 if files.len() > 1 => {
                let other = self.place(files.len());
                let contents = files[other].1.clone();
                files[chosen].1 = contents;
            }
            _ => {
                if let Some((_, contents)) = files.get_mut(chosen) {
                    self.change_some(contents);
                }
            }
        }
        if !self.random.once_in(3) {
            seal_directory(&mut files, self.random.once_in(2));
        }
        pack(&files)
    }
}

fn put(bytes: &mut [u8], at: usize, new: &[u8], change: impl Fn(u8, u8) -> u8) {
    for (byte, new) in bytes.iter_mut().skip(at).zip(new) {
        *byte = change(*byte, *new);
    }
}

fn seal_batch(input: &mut [u8]) {
    if let Some((seed, batch)) = input.split_first_chunk_mut() {
        seal_one(batch, u32::from_le_bytes(*seed));
    }
}
