//! Segments: names, and the header that each begins with.

use crate::disk::{Disk, DiskFile, is_unreadable};
use crate::error::{LogError, Result};
use crate::format::layout::{
    BLOCK, Block, COUNT_MAX, Invalid, LogId, RunId, VERSION, array_at, u32_at, u64_at, unseal,
};

const MAGIC: &[u8; 8] = b"BPFDBSEG";

/// The folder of all segments, within the data directory.
pub const FOLDER: &str = "log";

/// Name of the segment with this number, within the data directory.
pub fn name(number: u64) -> String {
    format!("{FOLDER}/{number:016x}.log")
}

/// Name of a spare, within the data directory.
pub fn spare_name(number: u64) -> String {
    format!("{FOLDER}/spare-{number}")
}

/// What a file of the folder is by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    Segment(u64),
    Spare(u64),
}

impl Named {
    /// `name` is within the folder. `None`: it is not one of ours.
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(number) = name.strip_prefix("spare-") {
            let number = number.parse().ok().filter(|number| *number < COUNT_MAX);
            let number = number.map(Self::Spare)?;
            return (number.file() == name).then_some(number);
        }
        let digits = name.strip_suffix(".log")?;
        let number = u64::from_str_radix(digits, 16).ok();
        let number = number.filter(|number| *number < COUNT_MAX);
        let number = number.map(Self::Segment)?;
        (number.file() == name).then_some(number)
    }

    fn file(self) -> String {
        let path = match self {
            Self::Segment(number) => name(number),
            Self::Spare(number) => spare_name(number),
        };
        path[FOLDER.len() + 1..].to_owned()
    }
}

/// First block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    pub log: LogId,
    pub number: u64,
    pub run: u64,
    pub run_id: RunId,
    /// Sequence number that its first batch has, once it is there.
    pub first_sequence: u64,
    /// Number of the segment before it; 0: none.
    pub before: u64,
    /// Where that one ends, in bytes.
    pub before_end: u64,
    /// Checksum of the last batch before this segment; 0: none.
    pub before_checksum: u32,
    /// Epoch up to which the run before was recovered, in the first segment of a run.
    pub cut: u64,
    /// Nanoseconds of UNIX time at which it was begun.
    pub wall: u64,
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; BLOCK] {
        let mut block = Block::new(MAGIC);
        block
            .put(16, &self.log.0)
            .put_u64(32, self.number)
            .put_u64(40, self.run)
            .put_u64(48, self.first_sequence)
            .put_u64(56, self.before)
            .put_u64(64, self.before_end)
            .put_u32(72, self.before_checksum)
            .put_u64(80, self.cut)
            .put_u64(88, self.wall)
            .put(96, &self.run_id.0);
        block.seal(VERSION)
    }

    /// `bytes` is one block.
    pub fn decode(bytes: &[u8]) -> Result<Self, Invalid> {
        let version = unseal(bytes, MAGIC, VERSION)?;
        let header = Self {
            log: LogId(array_at(bytes, 16)?),
            number: u64_at(bytes, 32)?,
            run: u64_at(bytes, 40)?,
            first_sequence: u64_at(bytes, 48)?,
            before: u64_at(bytes, 56)?,
            before_end: u64_at(bytes, 64)?,
            before_checksum: u32_at(bytes, 72)?,
            cut: u64_at(bytes, 80)?,
            wall: u64_at(bytes, 88)?,
            run_id: match version {
                1 => RunId::default(),
                _ => RunId(array_at(bytes, 96)?),
            },
        };
        header.plausible()
    }

    fn plausible(self) -> Result<Self, Invalid> {
        if !(1..COUNT_MAX).contains(&self.number) {
            return Err(Invalid::Field("number"));
        }
        if !(1..COUNT_MAX).contains(&self.first_sequence) {
            return Err(Invalid::Field("first sequence number"));
        }
        if self.run >= COUNT_MAX {
            return Err(Invalid::Field("run"));
        }
        if self.before != 0 && self.before != self.number - 1 {
            return Err(Invalid::Field("number of the segment before"));
        }
        Ok(self)
    }
}

/// Numbers of the segments that are there, in order. A folder that is not there has none.
pub(crate) fn numbers<D: Disk>(disk: &D) -> Result<Vec<u64>> {
    let names = match disk.list(FOLDER) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(LogError::io("list", FOLDER))?,
    };
    let numbers = names.iter().filter_map(|name| match Named::parse(name) {
        Some(Named::Segment(number)) => Some(number),
        _ => None,
    });
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The header of a segment's file. `None`: there is no such file.
///
/// # Errors
/// [`LogError::Corrupt`] if it is not the header of this segment.
pub(crate) fn read_header<D: Disk>(disk: &D, number: u64) -> Result<Option<SegmentHeader>> {
    let file_name = name(number);
    let Some(file) = disk
        .open(&file_name)
        .map_err(LogError::io("open", &file_name))?
    else {
        return Ok(None);
    };
    let mut block = [0; BLOCK];
    let read = match file.read_whole(0, &mut block) {
        Ok(len) => Ok(&block[..len]),
        Err(error) if is_unreadable(&error) => Err(Invalid::Unreadable(error.kind())),
        Err(error) => return Err(LogError::io("read", &file_name)(error)),
    };
    let header = read
        .and_then(SegmentHeader::decode)
        .and_then(|header| match header.number == number {
            true => Ok(header),
            false => Err(Invalid::Field("number")),
        })
        .map_err(LogError::invalid(file_name, 0, "the segment's header"))?;
    Ok(Some(header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(name(0x2a), "log/000000000000002a.log");
        assert_eq!(
            Named::parse("000000000000002a.log"),
            Some(Named::Segment(0x2a))
        );
        assert_eq!(Named::parse("spare-3"), Some(Named::Spare(3)));
        for foreign in ["2a.log", "spare-", "spare-03", "000000000000002A.log", "x"] {
            assert_eq!(Named::parse(foreign), None, "{foreign}");
        }
    }
}
