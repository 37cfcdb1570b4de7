//! Files that will be segments: allocated whole and written over before they are used, so that a
//! flush of a batch writes no metadata, and no space is wanting in the middle of one.
//!
//! A spare's size says how far it has been written over: it is `segment_size` once it is ready. So
//! one that a crash left unfinished is known, and finished.
//!
//! As many are kept as the log used between two checkpoints: at once if it used more than before,
//! slowly fewer if it uses less. (PostgreSQL estimates its segments in this way.) The disk had
//! room for them as segments, and a spare that is kept is not written twice.

use std::io;

use crate::disk::buffer::AlignedBuffer;
use crate::disk::{Disk, DiskFile, is_full};
use crate::error::{StepError, step as at};
use crate::format::segment::{self, Named};

/// Written at once, in bytes.
const STRIDE: u64 = 1 << 20;
/// A log that needs fewer segments than before is believed so much of it by each checkpoint.
const FORGOTTEN: f64 = 0.1;

/// The spares of a directory.
pub(crate) struct Spares<D: Disk> {
    disk: D,
    segment_size: u64,
    /// At least so many are kept.
    least: usize,
    /// Segments that are used between two checkpoints, lately.
    used: f64,
    /// Numbers of those that are ready.
    ready: Vec<u64>,
    unfinished: Option<Unfinished<D::File>>,
    next_number: u64,
}

struct Unfinished<F> {
    number: u64,
    file: F,
    /// Bytes that were written over.
    done: u64,
    flushed: bool,
}

impl<D: Disk> Spares<D> {
    /// Takes over the files of the folder that are spares, and the segments before
    /// `first_kept`, which an earlier owner did not come to recycle. `least`: so many are
    /// kept, and removed are those beyond.
    pub(crate) fn adopt(
        disk: D,
        segment_size: u64,
        least: usize,
        first_kept: u64,
    ) -> Result<Self, StepError> {
        let mut spares = Self {
            disk,
            segment_size,
            least,
            used: 0.0,
            ready: Vec::new(),
            unfinished: None,
            next_number: 1,
        };
        spares.adopt_files(first_kept)?;
        Ok(spares)
    }

    fn adopt_files(&mut self, first_kept: u64) -> Result<(), StepError> {
        let names = self.disk.list(segment::FOLDER);
        let mut old = Vec::new();
        for name in names.map_err(at("list", segment::FOLDER))? {
            match Named::parse(&name) {
                Some(Named::Spare(number)) => self.adopt_spare(number)?,
                Some(Named::Segment(number)) if number < first_kept => old.push(number),
                _ => {}
            }
        }
        // The oldest first: a crash in the middle leaves segments without a hole. Their numbers as
        // spares come behind those that are there.
        old.sort_unstable();
        old.into_iter().try_for_each(|number| self.recycle(number))
    }

    fn adopt_spare(&mut self, number: u64) -> Result<(), StepError> {
        self.next_number = self.next_number.max(number.saturating_add(1));
        let name = segment::spare_name(number);
        if self.is_usable(&name, self.limit())? {
            self.ready.push(number);
            return Ok(());
        }
        self.remove(&name)
    }

    /// A checkpoint has made so many segments needless for recovery.
    pub(crate) fn note_cycle(&mut self, segments: u64) {
        let segments = segments as f64;
        self.used = segments.max(self.used * (1.0 - FORGOTTEN) + segments * FORGOTTEN);
    }

    /// More than so many are removed.
    fn limit(&self) -> usize {
        self.least.max(self.used.round() as usize)
    }

    /// One that was removed meanwhile is no error: others behind it are to go, too.
    fn remove(&self, name: &str) -> Result<(), StepError> {
        match self.disk.remove(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(at("remove", name)),
        }
    }

    /// Whether the file is as long as a segment is now, and one more than those that are there is
    /// wanted.
    fn is_usable(&self, name: &str, limit: usize) -> Result<bool, StepError> {
        if self.ready.len() >= limit {
            return Ok(false);
        }
        let file = self.disk.open(name).map_err(at("open", name))?;
        let size = file.map_or(Ok(0), |file| file.size());
        Ok(size.map_err(at("find the size of", name))? == self.segment_size)
    }

    /// Makes a spare of a segment that is not needed, or removes it.
    pub(crate) fn recycle(&mut self, number: u64) -> Result<(), StepError> {
        self.recycle_up_to(number, self.limit())
    }

    /// The same; with `limit` spares no further one is made.
    pub(crate) fn recycle_up_to(&mut self, number: u64, limit: usize) -> Result<(), StepError> {
        let name = segment::name(number);
        if !self.is_usable(&name, limit)? {
            return self.remove(&name);
        }
        let spare = self.take_number();
        let to = segment::spare_name(spare);
        match self.disk.rename(&name, &to) {
            Ok(()) => self.ready.push(spare),
            // A name may take space, where a name less does not.
            Err(error) if is_full(&error) => return self.remove(&name),
            Err(error) => return Err(at("rename", &name)(error)),
        }
        Ok(())
    }

    /// Removes those beyond so many. `false`: there are none.
    pub(crate) fn remove_beyond(&mut self, count: usize) -> Result<bool, StepError> {
        let has_more = self.ready.len() > count;
        while self.ready.len() > count
            && let Some(&number) = self.ready.last()
        {
            self.remove(&segment::spare_name(number))?;
            self.ready.pop();
        }
        Ok(has_more)
    }

    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Writes up to `budget` bytes of a new spare. `true`: it is ready.
    pub(crate) fn prepare(&mut self, budget: u64) -> Result<bool, StepError> {
        let mut spare = match self.unfinished.take() {
            Some(spare) => spare,
            None => self.begin()?,
        };
        let name = segment::spare_name(spare.number);
        let result = spare.write_over(self.segment_size, budget);
        let number = spare.number;
        let done = spare.flushed;
        if !done {
            self.unfinished = Some(spare);
        }
        result.map_err(at("write over", &name))?;
        if done {
            self.ready.push(number);
        }
        Ok(done)
    }

    fn begin(&mut self) -> Result<Unfinished<D::File>, StepError> {
        let name = segment::spare_name(self.next_number);
        let created = self.disk.create(&name).map_err(at("create", &name));
        let made = created.and_then(|file| {
            let allocated = file.allocate(self.segment_size);
            allocated.map_err(at("allocate", &name)).map(|()| file)
        });
        let file = made.inspect_err(|_| {
            // An empty file is of no use, and harmless if it stays: the next owner removes it. If it
            // does not, its number is free: on a full disk each attempt fails in the same words then.
            if self.remove(&name).is_err() {
                self.next_number += 1;
            }
        })?;
        Ok(Unfinished {
            number: self.take_number(),
            file,
            done: 0,
            flushed: false,
        })
    }

    /// A spare that is ready, to be renamed.
    pub(crate) fn take(&mut self) -> Option<u64> {
        self.ready.pop()
    }

    /// The one that was taken is still a spare.
    pub(crate) fn put_back(&mut self, number: u64) {
        self.ready.push(number);
    }
}

impl<F: DiskFile> Unfinished<F> {
    fn write_over(&mut self, size: u64, budget: u64) -> io::Result<()> {
        let end = size.min(self.done.saturating_add(budget));
        let zeros = AlignedBuffer::zeroed(STRIDE.min(size) as usize);
        while self.done < end {
            let len = STRIDE.min(size - self.done);
            self.file.write_whole(self.done, &zeros[..len as usize])?;
            self.done += len;
        }
        if self.done == size {
            self.file.flush()?;
            self.flushed = true;
        }
        Ok(())
    }
}
