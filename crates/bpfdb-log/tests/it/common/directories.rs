//! Directories that have more, or begin later, than a log of which no part was ever given up. They
//! are fixtures, so what they write never changes.

use bpfdb_log::checkpoint::{CheckpointWriter, Header, VALUE_MAX, WrittenCheckpoint};
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{LogWriter, Start, copy_until};

use super::{append_at, options, reopen, set};

/// Nanoseconds between two epochs: a copy keeps them apart.
pub(crate) const TICK: u64 = 2_000_000_000;

/// Three of these commits fill a segment.
fn append(log: &mut LogWriter<SimulatedDisk>, epochs: std::ops::RangeInclusive<u64>) {
    for epoch in epochs {
        let record = set(epoch, &key(epoch), &value(epoch));
        append_at(log, epoch, epoch * TICK, &record).unwrap();
    }
}

fn key(epoch: u64) -> [u8; 1] {
    [b'a' + (epoch % 3) as u8]
}

fn value(epoch: u64) -> [u8; 1000] {
    [b'a' + epoch as u8; 1000]
}

/// A checkpoint of the last commits up to its start, the last of them.
struct Checkpoint {
    number: u64,
    commits: [u64; 3],
    end: u64,
    has_large: bool,
}

impl Checkpoint {
    fn new(number: u64, commits: [u64; 3], end: u64) -> Self {
        Self {
            number,
            commits,
            end,
            has_large: false,
        }
    }

    fn with_large(mut self) -> Self {
        self.has_large = true;
        self
    }

    /// It needs the segment that is being written.
    fn write(self, disk: &SimulatedDisk, log: &LogWriter<SimulatedDisk>) -> WrittenCheckpoint {
        let start = self.commits[2];
        let header = Header {
            log: log.log(),
            number: self.number,
            run: log.run(),
            start,
            wall: start * TICK + 1,
            first_segment: log.segment(),
            placement: b"placement".to_vec(),
        };
        let mut file = CheckpointWriter::create(disk.clone(), header).unwrap();
        for epoch in self.commits {
            file.add_entry(&key(epoch), &value(epoch), None).unwrap();
        }
        if self.has_large {
            let large = [b'x'; VALUE_MAX + 1];
            file.add_entry(b"large", &large, None).unwrap();
        }
        file.finish(self.end, self.end * TICK + 1).unwrap()
    }
}

/// Checkpoint 4 counts, and what is from checkpoint 2 on is retained, which is of the run before.
/// Of checkpoint 1 the segment is given up; checkpoint 3 never counted. Nobody has removed them.
pub(crate) fn retained(disk: &SimulatedDisk) {
    let mut log = reopen(disk, Start::NewRun, options(4, 2)).unwrap();
    append(&mut log, 1..=4);
    let first = Checkpoint::new(1, [2, 3, 4], 4).write(disk, &log);
    log.install_retaining(&first, 1).unwrap();
    append(&mut log, 5..=8);
    let second = Checkpoint::new(2, [5, 6, 7], 8).write(disk, &log);
    log.install_retaining(&second, 1).unwrap();
    append(&mut log, 9..=9);
    Checkpoint::new(3, [7, 8, 9], 11).write(disk, &log);
    let mut log = reopen(disk, Start::NewRun, options(4, 2)).unwrap();
    append(&mut log, 12..=15);
    let counts = Checkpoint::new(4, [12, 13, 14], 15)
        .with_large()
        .write(disk, &log);
    log.install_retaining(&counts, 1).unwrap();
    log.give_up_before(second.first_segment).unwrap();
    log.recycle(u64::MAX).unwrap();
    append(&mut log, 16..=17);
    log.close().unwrap();
}

/// A copy of a log that begins with a checkpoint of the commits up to 5, which ended with 6.
pub(crate) fn copied(disk: &SimulatedDisk) {
    let from = SimulatedDisk::new(2025);
    let mut log = reopen(&from, Start::NewRun, options(4, 2)).unwrap();
    append(&mut log, 1..=6);
    let written = Checkpoint::new(1, [3, 4, 5], 6)
        .with_large()
        .write(&from, &log);
    log.install(&written).unwrap();
    log.release_before(written.first_segment).unwrap();
    append(&mut log, 7..=8);
    copy_until(&from, disk, None, options(6, 3), |_| ()).unwrap();
}
