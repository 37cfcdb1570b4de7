//! Names, header and footer of a checkpoint.

use crate::disk::Disk;
use crate::error::{LogError, Result};
use crate::format::layout::{
    BLOCK, Block, CHECKPOINT_VERSION, Invalid, LogId, array_at, u32_at, u64_at, unseal,
};

const HEADER_MAGIC: &[u8; 8] = b"BPFDBCKP";
const FOOTER_MAGIC: &[u8; 8] = b"BPFDBCKE";
const PLACEMENT: usize = 80;

/// Bytes of the placement, at most.
pub const PLACEMENT_MAX: usize = BLOCK - PLACEMENT;

/// The folder of checkpoints, within the data directory.
pub const FOLDER: &str = "checkpoint";

/// Name of the checkpoint with this number, within the data directory.
pub fn name(number: u64) -> String {
    format!("{FOLDER}/{number:016x}.ckpt")
}

/// Its name while it is being written.
pub fn part_name(number: u64) -> String {
    format!("{FOLDER}/{number:016x}.part")
}

/// First block of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub log: LogId,
    pub number: u64,
    /// The run whose memory it is of.
    pub run: u64,
    /// Commits with a later timestamp are in the log.
    pub start: u64,
    /// Nanoseconds of UNIX time at which it was begun.
    pub wall: u64,
    /// No commit after its start, and no part of its large values, is in a segment before this.
    pub first_segment: u64,
    /// By which rule keys have their places in the engine: up to [`PLACEMENT_MAX`] bytes, of
    /// which this crate knows nothing.
    pub placement: Vec<u8>,
}

impl Header {
    /// # Panics
    /// If the placement is too long.
    pub fn encode(&self) -> [u8; BLOCK] {
        let mut block = Block::new(HEADER_MAGIC);
        block
            .put(16, &self.log.0)
            .put_u64(32, self.number)
            .put_u64(40, self.run)
            .put_u64(48, self.start)
            .put_u64(56, self.wall)
            .put_u64(64, self.first_segment)
            .put_u32(72, self.placement.len() as u32)
            .put(PLACEMENT, &self.placement);
        block.seal(CHECKPOINT_VERSION)
    }

    /// `bytes` is one block.
    pub fn decode(bytes: &[u8]) -> Result<Self, Invalid> {
        unseal(bytes, HEADER_MAGIC, CHECKPOINT_VERSION)?;
        let placement = u32_at(bytes, 72)? as usize;
        let placement = bytes[PLACEMENT..].get(..placement);
        Ok(Self {
            log: LogId(array_at(bytes, 16)?),
            number: u64_at(bytes, 32)?,
            run: u64_at(bytes, 40)?,
            start: u64_at(bytes, 48)?,
            wall: u64_at(bytes, 56)?,
            first_segment: u64_at(bytes, 64)?,
            placement: placement.ok_or(Invalid::Field("placement"))?.to_vec(),
        })
    }
}

/// Last block of the file: with it the checkpoint is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    pub log: LogId,
    pub number: u64,
    /// It means nothing without the commits up to this timestamp.
    pub end: u64,
    /// Keys, perhaps some of them twice.
    pub entries: u64,
    pub blocks: u64,
    /// Bytes before the footer.
    pub bytes: u64,
    /// Nanoseconds of UNIX time at which it was complete.
    pub wall: u64,
}

impl Footer {
    pub fn encode(&self) -> [u8; BLOCK] {
        let mut block = Block::new(FOOTER_MAGIC);
        block
            .put(16, &self.log.0)
            .put_u64(32, self.number)
            .put_u64(40, self.end)
            .put_u64(48, self.entries)
            .put_u64(56, self.blocks)
            .put_u64(64, self.bytes)
            .put_u64(72, self.wall);
        block.seal(CHECKPOINT_VERSION)
    }

    /// `bytes` is one block.
    pub fn decode(bytes: &[u8]) -> Result<Self, Invalid> {
        unseal(bytes, FOOTER_MAGIC, CHECKPOINT_VERSION)?;
        Ok(Self {
            log: LogId(array_at(bytes, 16)?),
            number: u64_at(bytes, 32)?,
            end: u64_at(bytes, 40)?,
            entries: u64_at(bytes, 48)?,
            blocks: u64_at(bytes, 56)?,
            bytes: u64_at(bytes, 64)?,
            wall: u64_at(bytes, 72)?,
        })
    }
}

/// Removes a checkpoint that is not needed any more, if it is there.
///
/// # Errors
/// [`LogError::Io`]: to be tried again.
pub fn remove<D: Disk>(disk: &D, number: u64) -> Result<()> {
    let name = name(number);
    match disk.remove(&name) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(LogError::io("remove", &name)),
    }
}

/// Removes all files of the folder but the checkpoints `keep`: what an earlier owner began, or
/// did not come to remove.
///
/// # Errors
/// [`LogError::Io`]: to be tried again.
pub fn remove_others<D: Disk>(disk: &D, keep: &[u64]) -> Result<()> {
    let keep: Vec<String> = keep.iter().copied().map(name).collect();
    for file in list(disk)? {
        let file = format!("{FOLDER}/{file}");
        if is_ours(&file) && !keep.contains(&file) {
            disk.remove(&file).map_err(LogError::io("remove", &file))?;
        }
    }
    Ok(())
}

/// Of the files that are complete by their names, in order.
pub(crate) fn numbers<D: Disk>(disk: &D) -> Result<Vec<u64>> {
    let number = |file: &String| {
        let number = u64::from_str_radix(file.strip_suffix(".ckpt")?, 16).ok()?;
        (name(number) == format!("{FOLDER}/{file}")).then_some(number)
    };
    let mut numbers: Vec<u64> = list(disk)?.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn list<D: Disk>(disk: &D) -> Result<Vec<String>> {
    match disk.list(FOLDER) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        names => names.map_err(LogError::io("list", FOLDER)),
    }
}

fn is_ours(file: &str) -> bool {
    let number = |ending| {
        let digits = file.strip_prefix(FOLDER)?.strip_prefix('/')?;
        u64::from_str_radix(digits.strip_suffix(ending)?, 16).ok()
    };
    number(".ckpt").is_some_and(|number| name(number) == file)
        || number(".part").is_some_and(|number| part_name(number) == file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_not_ours() {
        assert!(is_ours(&name(0x1f)) && is_ours(&part_name(7)));
        for foreign in [
            "checkpoint/1f.ckpt",
            "checkpoint/x",
            "log/000000000000001f.ckpt",
        ] {
            assert!(!is_ours(foreign), "{foreign}");
        }
    }
}
