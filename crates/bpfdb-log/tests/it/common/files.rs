//! The files of a directory, and checksums that are set right after a change of them.

use bpfdb_log::batch::BatchHeader;
use bpfdb_log::checkpoint::BlockHeader;
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{BLOCK, CHECKPOINT_VERSION, VERSION};

/// Names and contents.
pub(crate) type Files = Vec<(String, Vec<u8>)>;

pub(crate) fn files_of(disk: &SimulatedDisk) -> Files {
    let file = |name: String| {
        let contents = disk.contents(&name).expect("it was listed");
        (name, contents)
    };
    disk.names().into_iter().map(file).collect()
}

pub(crate) fn disk_of(files: &Files) -> SimulatedDisk {
    let disk = SimulatedDisk::new(0);
    for (name, contents) in files {
        disk.put(name, contents);
    }
    disk
}

/// Sets checksum and version of a block right; a version that exists stays as it is.
pub(crate) fn seal(block: &mut [u8]) {
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
pub(crate) fn seal_one(bytes: &mut [u8], seed: u32) -> Option<(u32, usize)> {
    let header = BatchHeader::peek(bytes).ok()?;
    let covered = usize::try_from(header.header_size() + u64::from(header.payload)).ok()?;
    let sum = crc32c::crc32c_append(seed, bytes.get(12..covered)?);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    Some((sum, header.size() as usize))
}

/// Sets the checksums of all files right; `chain`: also those that tie a segment to the one before.
pub(crate) fn seal_directory(files: &mut Files, chain: bool) {
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
        // The seed of sections of every version.
        let sum = crc32c::crc32c_append(1, &section[12..]);
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
