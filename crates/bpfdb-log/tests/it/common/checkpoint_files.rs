//! Reads checkpoints whole.

use bpfdb_log::checkpoint::{CheckpointReader, Contents, Mark};
use bpfdb_log::record::Value;
use bpfdb_log::{Disk, LogError, LogId};

/// Key, value, and when it expires, in the order of the file.
pub(crate) type Found = Vec<(Vec<u8>, Vec<u8>, Option<u64>)>;

/// What a checkpoint has, after it was verified.
pub(crate) fn read<D: Disk>(disk: &D, log: LogId, mark: Mark) -> Result<Found, LogError> {
    CheckpointReader::open(disk, log, mark)?.verify()?;
    let mut reader = CheckpointReader::open(disk, log, mark)?;
    let mut found = Found::new();
    while let Some(block) = reader.next_block()? {
        match block.contents()? {
            Contents::LargeBytes(bytes) => found.last_mut().unwrap().1.extend(bytes),
            Contents::Large(entry) => found.push((entry.key.to_vec(), Vec::new(), entry.expires)),
            Contents::Entries(entries, _) => {
                for entry in entries {
                    let entry = entry.unwrap();
                    let (Value::Inline(value) | Value::Typed(_, value)) = entry.value else {
                        panic!("{entry:?}");
                    };
                    found.push((entry.key.to_vec(), value.to_vec(), entry.expires));
                }
            }
        }
    }
    Ok(found)
}
