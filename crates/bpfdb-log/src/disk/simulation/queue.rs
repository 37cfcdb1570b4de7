//! Writes that are under way at once on a simulated disk.

use std::io;

use super::{Random, SimulatedFile};
use crate::disk::DiskFile;
use crate::disk::queue::{CompletedWrite, QueuedWrite, WriteQueue};

/// A queue of one thread, the same way for the same seed. A write that is under way may land, vanish
/// or tear when power is lost, whatever becomes of those before it; and writes end in any order.
pub struct SimulatedQueue {
    under_way: Vec<UnderWay>,
    random: Random,
}

struct UnderWay {
    write: QueuedWrite<SimulatedFile>,
    /// What came of the write without its flush.
    written: io::Result<()>,
}

impl UnderWay {
    fn end(self) -> CompletedWrite {
        let QueuedWrite {
            id,
            file,
            offset,
            bytes,
        } = self.write;
        let range = offset as usize..offset as usize + bytes.len();
        CompletedWrite {
            id,
            result: self.written.and_then(|()| file.flush_range(range)),
            bytes,
        }
    }
}

impl SimulatedQueue {
    pub fn new(seed: u64) -> Self {
        Self {
            under_way: Vec::new(),
            random: Random::new(seed),
        }
    }
}

impl WriteQueue<SimulatedFile> for SimulatedQueue {
    fn submit(&mut self, write: QueuedWrite<SimulatedFile>) {
        let written = write.file.write_whole(write.offset, &write.bytes);
        self.under_way.push(UnderWay { write, written });
    }

    fn completed(&mut self, waits: bool) -> Option<CompletedWrite> {
        if self.under_way.is_empty() || (!waits && self.random.once_in(2)) {
            return None;
        }
        let which = self.random.below(self.under_way.len() as u64) as usize;
        Some(self.under_way.swap_remove(which).end())
    }
}
