//! The control file: identity of the log, and what is known to be durable.
//!
//! Two slots are written in turn. A slot that power loss tears is the older one, so one that is
//! valid always remains.
//!
//! A disk may damage any of them later. So each is read by itself, and no segment or checkpoint
//! that one of them names goes away: when something is to go, both say so before.

use crate::disk::buffer::AlignedBuffer;
use crate::disk::{Disk, DiskFile};
use crate::error::{LogError, Result};
use crate::format::checkpoint::Mark;
use crate::format::layout::{
    BLOCK, Block, COUNT_MAX, Invalid, LogId, VERSION, array_at, u32_at, u64_at, unseal,
};
use crate::format::moment::Moment;

/// Name within the data directory.
pub const NAME: &str = "control";

const MAGIC: &[u8; 8] = b"BPFDBCTL";
const SLOTS: usize = 2;

/// Contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Format version of the slot that it was read from. What is written has the newest.
    pub version: u32,
    /// Grows with every slot that is written, from 1.
    pub generation: u64,
    pub log: LogId,
    /// The newest run; 0 before the first.
    pub run: u64,
    /// Segment that holds the last batch known to be durable; 0: none.
    pub durable_segment: u64,
    /// Sequence number of that batch; 0: none.
    pub durable_sequence: u64,
    /// First segment that recovery needs.
    pub first_needed: u64,
    /// First segment that is retained for recovery to an earlier time; 0: none before that one.
    pub first_retained: u64,
    /// Whether the log was closed, and ends with that batch.
    pub closed: bool,
    /// The newest segment; 0 before the first.
    pub newest_segment: u64,
    /// Where recovery begins; `None`: with the first segment.
    pub checkpoint: Option<Mark>,
    /// The earliest point that the first segment of all can give. Zero, but in a copy of a log that
    /// began with a checkpoint: what that had stands there as commits of its start.
    pub complete_from: Moment,
}

impl Control {
    /// That of a log without a run.
    pub fn new(log: LogId) -> Self {
        Self {
            version: VERSION,
            generation: 1,
            log,
            run: 0,
            durable_segment: 0,
            durable_sequence: 0,
            first_needed: 1,
            first_retained: 0,
            closed: false,
            newest_segment: 0,
            checkpoint: None,
            complete_from: Moment::default(),
        }
    }

    pub fn encode(&self) -> [u8; BLOCK] {
        let mut block = Block::new(MAGIC);
        block
            .put_u64(16, self.generation)
            .put(24, &self.log.0)
            .put_u64(40, self.run)
            .put_u64(48, self.durable_segment)
            .put_u64(56, self.durable_sequence)
            .put_u64(64, self.first_needed)
            .put_u32(72, u32::from(self.closed))
            .put_u64(80, self.newest_segment);
        if let Some(mark) = &self.checkpoint {
            block
                .put_u64(88, mark.number)
                .put_u64(96, mark.start)
                .put_u64(104, mark.end);
        }
        block
            .put_u64(112, self.first_retained)
            .put_u64(120, self.complete_from.epoch)
            .put_u64(128, self.complete_from.wall);
        block.seal(VERSION)
    }

    /// `bytes` is one block.
    pub fn decode(bytes: &[u8]) -> Result<Self, Invalid> {
        let control = Self {
            version: unseal(bytes, MAGIC, VERSION)?,
            generation: u64_at(bytes, 16)?,
            log: LogId(array_at(bytes, 24)?),
            run: u64_at(bytes, 40)?,
            durable_segment: u64_at(bytes, 48)?,
            durable_sequence: u64_at(bytes, 56)?,
            first_needed: u64_at(bytes, 64)?,
            first_retained: u64_at(bytes, 112)?,
            closed: u32_at(bytes, 72)? == 1,
            newest_segment: u64_at(bytes, 80)?,
            checkpoint: Mark::decode(u64_at(bytes, 88)?, u64_at(bytes, 96)?, u64_at(bytes, 104)?)?,
            complete_from: Moment {
                epoch: u64_at(bytes, 120)?,
                wall: u64_at(bytes, 128)?,
            },
        };
        if !(1..COUNT_MAX).contains(&control.first_needed) {
            return Err(Invalid::Field("first segment"));
        }
        if control.first_retained > control.first_needed {
            return Err(Invalid::Field("first retained segment"));
        }
        if control.newest_segment >= COUNT_MAX {
            return Err(Invalid::Field("newest segment"));
        }
        match control.generation.max(control.run) {
            COUNT_MAX.. => Err(Invalid::Field("generation or run")),
            _ => Ok(control),
        }
    }

    /// The first segment that must stay: recovery needs it, or it is retained.
    pub fn first_kept(&self) -> u64 {
        match self.first_retained {
            0 => self.first_needed,
            retained => retained,
        }
    }

    /// The checkpoint that recovery cannot do without: a log that has its beginning needs none.
    pub(crate) fn needed_checkpoint(&self) -> Option<Mark> {
        self.checkpoint.filter(|_| self.first_needed > 1)
    }

    /// Where the slot of this generation stands, in bytes.
    fn offset(&self) -> u64 {
        (self.generation % SLOTS as u64) * BLOCK as u64
    }
}

/// What the slots of a control file say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots(pub [Result<Control, Invalid>; SLOTS]);

impl Slots {
    /// `None`: there is no control file.
    ///
    /// # Errors
    /// [`LogError::Io`] if no slot is valid, and one of them cannot be read.
    pub fn read<D: Disk>(disk: &D) -> Result<Option<Self>> {
        let Some(file) = disk.open(NAME).map_err(LogError::io("open", NAME))? else {
            return Ok(None);
        };
        let [first, second] = [0, 1].map(|n| read_slot(&file, n));
        let slots = Self([decode(&first), decode(&second)]);
        let is_any = slots.newest().is_some();
        match first.and(second) {
            Err(error) if !is_any => Err(LogError::io("read", NAME)(error)),
            _ => Ok(Some(slots)),
        }
    }

    /// The one that counts.
    pub fn newest(&self) -> Option<Control> {
        let valid = self.0.iter().filter_map(|slot| slot.as_ref().ok());
        valid.max_by_key(|control| control.generation).copied()
    }

    /// Why none of them counts: the error of the one that says most.
    pub(crate) fn why_invalid(&self) -> Invalid {
        let reasons = || self.0.iter().filter_map(|slot| slot.err());
        let version = reasons().find(|why| matches!(why, Invalid::Version(_)));
        version.or(reasons().next()).unwrap_or(Invalid::Magic)
    }
}

fn read_slot<F: DiskFile>(file: &F, n: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; BLOCK];
    let len = file.read_whole((n * BLOCK) as u64, &mut bytes)?;
    bytes.truncate(len);
    Ok(bytes)
}

fn decode(read: &std::io::Result<Vec<u8>>) -> Result<Control, Invalid> {
    match read {
        Ok(bytes) if bytes.len() < BLOCK => Err(Invalid::Short),
        Ok(bytes) => Control::decode(bytes),
        Err(error) => Err(Invalid::Unreadable(error.kind())),
    }
}

/// The control file, open for its next slot.
pub(crate) struct ControlFile<F> {
    file: F,
    pub(crate) now: Control,
    /// What the other slot says. `None`: that is not known, or it is not valid.
    other: Option<Control>,
}

impl<F: DiskFile> ControlFile<F> {
    /// Writes the file of a new log. The caller flushes the directory.
    pub(crate) fn create<D: Disk<File = F>>(disk: &D, control: Control) -> std::io::Result<Self> {
        // What a crash left of an earlier attempt is no control file, or there would be a log.
        let file = match disk.open_for_writing(NAME)? {
            Some(file) => file,
            None => disk.create(NAME)?,
        };
        file.allocate((SLOTS * BLOCK) as u64)?;
        let mut blocks = AlignedBuffer::zeroed(SLOTS * BLOCK);
        blocks[control.offset() as usize..][..BLOCK].copy_from_slice(&control.encode());
        file.write_whole(0, &blocks)?;
        file.flush()?;
        Ok(Self {
            file,
            now: control,
            other: None,
        })
    }

    pub(crate) fn open<D: Disk<File = F>>(
        disk: &D,
        control: Control,
    ) -> std::io::Result<Option<Self>> {
        let file = disk.open_for_writing(NAME)?;
        Ok(file.map(|file| Self {
            file,
            now: control,
            other: None,
        }))
    }

    /// Writes and flushes the next slot. It does not count if that fails.
    pub(crate) fn write(&mut self, next: Control) -> std::io::Result<()> {
        let next = Control {
            generation: self.now.generation + 1,
            ..next
        };
        self.other = None;
        self.put(&next)?;
        self.other = Some(std::mem::replace(&mut self.now, next));
        Ok(())
    }

    /// Whether both slots name the same beginning of the log, and of what is retained: what is
    /// before may go away then.
    pub(crate) fn agrees(&self) -> bool {
        let beginning = |control: &Control| {
            let first = (control.first_needed, control.first_kept());
            (first, control.checkpoint)
        };
        let other = self.other.as_ref().map(beginning);
        other == Some(beginning(&self.now))
    }

    /// Makes durable the slot that counts. Until then the other one must not be touched.
    pub(crate) fn write_again(&self) -> std::io::Result<()> {
        self.put(&self.now)
    }

    /// See [`Disk::check_name`].
    pub(crate) fn check_name<D: Disk<File = F>>(&self, disk: &D) -> std::io::Result<()> {
        disk.check_name(NAME, &self.file)
    }

    fn put(&self, control: &Control) -> std::io::Result<()> {
        let block = AlignedBuffer::from(&control.encode()[..]);
        self.file.write_flushed(control.offset(), &block)
    }
}
