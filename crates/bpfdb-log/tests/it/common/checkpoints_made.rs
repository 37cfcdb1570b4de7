//! The checkpoints of a random engine: begun at one time, completed at a later one, and named by the
//! control file then, still later, or never.

use std::collections::{BTreeMap, BTreeSet};

use bpfdb_log::checkpoint::{self, CheckpointWriter, Header, Mark, VALUE_MAX, WrittenCheckpoint};
use bpfdb_log::reader::read_control;
use bpfdb_log::simulation::{Random, SimulatedDisk};
use bpfdb_log::{LogError, LogWriter};

use super::Writes;
use super::checkpoint_files::read;

/// By timestamp and contents: all commits that count or may count yet.
pub(crate) type Truth = BTreeSet<(u64, Writes)>;

/// Has many blocks of its own, so that a checkpoint is torn in the middle.
const LARGE: &[u8] = b"large";

/// A checkpoint whose file is not complete. It has the sums of values in place of them.
struct Making {
    number: u64,
    writer: CheckpointWriter<SimulatedDisk>,
    start: u64,
    rest: Vec<(Vec<u8>, u32)>,
}

#[derive(Default)]
pub(crate) struct Checkpoints {
    making: Option<Making>,
    /// It is complete, and the control file does not name it, or perhaps does.
    waiting: Option<WrittenCheckpoint>,
    /// The control file names this one,
    counts: Option<Mark>,
    /// or one of these: what was to have it name them was interrupted.
    perhaps: Vec<Mark>,
}

impl Checkpoints {
    /// Does what comes next, and says what that was.
    pub(crate) fn advance(
        &mut self,
        random: &mut Random,
        log: &mut LogWriter<SimulatedDisk>,
        (truth, acknowledged, first_segment): (&Truth, u64, u64),
    ) -> Result<&'static str, LogError> {
        if let Some(written) = self.waiting {
            return self.install(random, log, written);
        }
        match self.making.take() {
            Some(making) => {
                self.waiting = Some(complete(random, making, truth, acknowledged)?);
                Ok("checkpoint completed")
            }
            None if random.once_in(4) => {
                log.give_up_before(log.first_needed())?;
                log.recycle(1 + random.below(3))?;
                Ok("given up")
            }
            None => {
                self.making = Some(self.begin(log, truth, acknowledged, first_segment)?);
                Ok("checkpoint begun")
            }
        }
    }

    /// Half of what is durable goes to the file now.
    fn begin(
        &self,
        log: &LogWriter<SimulatedDisk>,
        truth: &Truth,
        start: u64,
        first_segment: u64,
    ) -> Result<Making, LogError> {
        // Also if there is a file of that number, which was completed and never came to count.
        let number = self.counts.map_or(0, |mark| mark.number) + 1;
        let header = Header {
            log: log.log(),
            number,
            run: log.run(),
            start,
            wall: start,
            first_segment: first_segment.max(log.first_needed()),
            placement: Vec::new(),
        };
        let mut writer = CheckpointWriter::create(log.disk().clone(), header)?;
        let mut lines: Vec<_> = lines(truth, 0, start).collect();
        let rest = lines.split_off(lines.len() / 2);
        add(&mut writer, &lines)?;
        Ok(Making {
            number,
            writer,
            start,
            rest,
        })
    }

    /// Has the control file name a checkpoint. What is older is retained, or goes.
    fn install(
        &mut self,
        random: &mut Random,
        log: &mut LogWriter<SimulatedDisk>,
        written: WrittenCheckpoint,
    ) -> Result<&'static str, LogError> {
        self.perhaps.push(written.mark);
        let first_kept = match random.once_in(2) {
            true => log.first_kept(),
            false => written.first_segment,
        };
        log.install_retaining(&written, first_kept)?;
        self.waiting = None;
        self.counts = Some(written.mark);
        self.perhaps.clear();
        if random.once_in(2) {
            log.recycle(random.below(4))?;
        }
        checkpoint::remove_others(log.disk(), &[written.mark.number])?;
        Ok("checkpoint installed")
    }

    /// The process is over.
    pub(crate) fn forget(&mut self) {
        self.making = None;
        self.waiting = None;
    }

    /// The log was opened, and so its control file is durable.
    pub(crate) fn settle(&mut self, disk: &SimulatedDisk) {
        let control = read_control(disk).unwrap().unwrap();
        let is_known = |mark| self.counts == Some(mark) || self.perhaps.contains(&mark);
        assert!(control.checkpoint.is_none_or(is_known), "{control:?}");
        assert!(control.checkpoint.is_some() || self.counts.is_none());
        self.counts = control.checkpoint;
        self.perhaps.clear();
        // What it cannot remove takes space, and nothing else.
        let keep: Vec<u64> = self.counts.iter().map(|mark| mark.number).collect();
        let _ = checkpoint::remove_others(disk, &keep);
    }

    /// Reads the checkpoint that counts, and compares it with the truth. Up to the timestamp that
    /// comes back, commits are in it and not in the log.
    pub(crate) fn verify(&self, disk: &SimulatedDisk, truth: &Truth) -> u64 {
        let control = read_control(disk).unwrap();
        let named = control.as_ref().and_then(|control| control.checkpoint);
        let Some(mark) = named else {
            assert_eq!(self.counts, None, "none counts any more");
            return 0;
        };
        let is_known = self.counts == Some(mark) || self.perhaps.contains(&mark);
        assert!(is_known, "{mark:?} never was to count");
        let found = read(disk, control.unwrap().log, mark).unwrap();
        let mut found: BTreeMap<_, _> = found.into_iter().map(|(key, sum, _)| (key, sum)).collect();
        let large = found.remove(LARGE).expect("each of them has this");
        assert!(large.len() > VALUE_MAX && large.iter().all(|byte| *byte == mark.number as u8));
        for (key, sum) in lines(truth, 0, mark.start) {
            let there = found.remove(&key);
            assert_eq!(there, Some(sum.to_le_bytes().to_vec()), "{key:?}");
        }
        let late: BTreeMap<_, _> = lines(truth, mark.start, mark.end).collect();
        for (key, sum) in found {
            assert_eq!(
                late.get(&key).map(|sum| sum.to_le_bytes().to_vec()),
                Some(sum)
            );
        }
        mark.start
    }
}

/// The rest of what is to be there, and some of what came later.
fn complete(
    random: &mut Random,
    making: Making,
    truth: &Truth,
    end: u64,
) -> Result<WrittenCheckpoint, LogError> {
    let Making {
        number,
        mut writer,
        start,
        rest,
    } = making;
    add(&mut writer, &rest)?;
    let late: Vec<_> = lines(truth, start, end)
        .filter(|_| random.once_in(2))
        .collect();
    add(&mut writer, &late)?;
    writer.add_entry(LARGE, &vec![number as u8; VALUE_MAX + 1], None)?;
    writer.finish(end, end)
}

fn add(
    writer: &mut CheckpointWriter<SimulatedDisk>,
    lines: &[(Vec<u8>, u32)],
) -> Result<(), LogError> {
    let mut lines = lines.iter();
    lines.try_for_each(|(key, sum)| writer.add_entry(key, &sum.to_le_bytes(), None))
}

/// Key and sum of all that was written after `after`, up to a timestamp.
fn lines(truth: &Truth, after: u64, up_to: u64) -> impl Iterator<Item = (Vec<u8>, u32)> {
    let commits = truth
        .range((after + 1, Vec::new())..)
        .take_while(move |(timestamp, _)| *timestamp <= up_to);
    let writes = commits.flat_map(|(_, writes)| writes);
    writes.map(|(key, value)| (key.clone(), crc32c::crc32c(value)))
}
