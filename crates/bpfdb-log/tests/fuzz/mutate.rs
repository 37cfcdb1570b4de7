//! Mutations: of bytes, and of files whose checksums are set right afterwards.

use bpfdb_log::batch::BatchHeader;
use bpfdb_log::checkpoint::BlockHeader;
use bpfdb_log::simulation::Random;
use bpfdb_log::{BLOCK, CHECKPOINT_VERSION, VERSION};

use crate::archive::{Files, pack, unpack};

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

/// Sets checksum and version of a block right; a version that exists stays as it is.
fn seal(block: &mut [u8]) {
    if block.len() >= BLOCK {
        let version = u32::from_le_bytes([8, 9, 10, 11].map(|at| block[at]));
        let version = match version {
            1..=VERSION => version,
            _ => VERSION,
        };
        block[8..12].copy_from_slice(&version.to_le_bytes());
        let sum = crc32c::crc32c_append(version, &block[16..BLOCK]);
        block[12..16].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Sets the checksum of a batch right, and returns it with the batch's size.
fn seal_one(bytes: &mut [u8], seed: u32) -> Option<(u32, usize)> {
    let header = BatchHeader::peek(bytes).ok()?;
    let covered = usize::try_from(header.header_size() + u64::from(header.payload)).ok()?;
    let sum = crc32c::crc32c_append(seed, bytes.get(12..covered)?);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    Some((sum, header.size() as usize))
}

fn seal_batch(input: &mut [u8]) {
    if let Some((seed, batch)) = input.split_first_chunk_mut() {
        seal_one(batch, u32::from_le_bytes(*seed));
    }
}

/// Sets the checksums of all files right; `chain`: also those that tie a segment to the one before.
fn seal_directory(files: &mut Files, chain: bool) {
    files.sort();
    let mut before = None;
    for (name, contents) in files {
        if name == "control" {
            contents.chunks_mut(BLOCK).for_each(seal);
        } else if name.ends_with(".log") && contents.len() >= BLOCK {
            if let (true, Some((sequence, end, sum))) = (chain, before) {
                put_u64(contents, 48, sequence);
                put_u64(contents, 64, end);
                contents[72..76].copy_from_slice(&u32::to_le_bytes(sum));
            }
            seal(&mut contents[..BLOCK]);
            before = Some(seal_segment(contents));
        } else if name.ends_with(".ckpt") {
            seal_checkpoint(contents);
        }
    }
}

/// Header, sections as far as they follow each other, and footer.
fn seal_checkpoint(contents: &mut [u8]) {
    let last = (contents.len() / BLOCK).saturating_sub(1) * BLOCK;
    let mut at = BLOCK;
    while at < last
        && let Ok(header) = BlockHeader::peek(&contents[at..])
        && let Some(section) = contents.get_mut(at..at + header.size())
    {
        let sum = crc32c::crc32c_append(CHECKPOINT_VERSION, &section[12..]);
        section[8..12].copy_from_slice(&sum.to_le_bytes());
        at += header.size();
    }
    for at in [0, last] {
        seal(contents.get_mut(at..).unwrap_or_default());
    }
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The sequence number of the batch behind it, its end, and the checksum of the last batch.
fn seal_segment(contents: &mut [u8]) -> (u64, u64, u32) {
    let number = |bytes: &[u8], at: usize| {
        let field = bytes[at..at + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(field)
    };
    let mut sequence = number(contents, 48);
    let mut sum = number(contents, 72) as u32;
    let mut at = BLOCK;
    while let Some((next, size)) = contents.get_mut(at..).and_then(|rest| seal_one(rest, sum)) {
        sum = next;
        at += size;
        sequence = sequence.wrapping_add(1);
    }
    (sequence, at as u64, sum)
}
