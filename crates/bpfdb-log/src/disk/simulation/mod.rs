//! A disk in memory for tests: it loses power and fails on demand, the same way for the same seed.
//!
//! It promises as little as a disk may: only what was flushed is there after power loss. A write
//! that was not may land, vanish, or tear at 512 bytes; several may land in any order. The name of
//! a file is as good as the flush of its folder. A folder lists its files in any order. A flush that failed says nothing about the writes
//! before it, nor does a later one. A durable write says nothing about the writes before it.
//!
//! ```
//! use bpfdb_log::simulation::SimulatedDisk;
//! use bpfdb_log::{AlignedBuffer, BLOCK, Disk, DiskFile};
//!
//! let disk = SimulatedDisk::new(1);
//! let file = disk.create("log/a").unwrap();
//! file.write_flushed(0, &AlignedBuffer::zeroed(BLOCK)).unwrap();
//! disk.flush_folder("log").unwrap();
//! let disk = disk.lose_power();
//! assert_eq!(disk.open("log/a").unwrap().unwrap().size().unwrap(), BLOCK as u64);
//! // Handles from before are dead.
//! assert!(file.size().is_err());
//! ```

mod files;
mod queue;
mod random;

use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::disk::{Disk, DiskFile};
use crate::format::layout::{BLOCK, round_up};
use files::{Files, Inode, SECTOR, folder_of};
pub use queue::SimulatedQueue;
pub use random::Random;

/// What can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    /// Of a file for writing.
    Open,
    Allocate,
    Write,
    Flush,
    Rename,
    Remove,
    FlushFolder,
}

impl Operation {
    pub const ALL: [Self; 8] = [
        Self::Create,
        Self::Open,
        Self::Allocate,
        Self::Write,
        Self::Flush,
        Self::Rename,
        Self::Remove,
        Self::FlushFolder,
    ];
}

/// How it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EIO. Of a write, any part was done.
    Error,
    /// ENOSPC. Of a write, any part was done.
    Full,
    /// EMFILE: nothing was done.
    NoDescriptor,
    /// EINTR: nothing was done.
    Interrupted,
    /// A write says that it did less than all, perhaps nothing.
    Short,
    /// A flush succeeds, and does nothing.
    Lie,
}

struct State {
    files: Files,
    random: Random,
    /// Of the names that a folder lists: how often they are read does not change what is lost.
    order: Random,
    /// Handles of others are dead.
    incarnation: u64,
    counts: [u64; Operation::ALL.len()],
    /// Operation, its count, and how it fails.
    faults: Vec<(Operation, u64, Fault)>,
    /// Operations of all kinds that are left until everything stops.
    until_stop: Option<u64>,
    /// Bytes.
    capacity: usize,
    /// Whether files say that they are direct.
    direct: bool,
    /// Whether reads that are not at hand are begun by that.
    knows_reads: bool,
    panics_in_reads: bool,
}

impl State {
    fn is_stopped(&self) -> bool {
        self.until_stop == Some(0)
    }
}

/// A simulated data directory. Clones are the same one.
#[derive(Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
    incarnation: u64,
    hold: Arc<Hold>,
    hold_of_reads: Arc<Hold>,
}

/// Whether operations wait.
#[derive(Default)]
struct Hold {
    held: Mutex<Held>,
    released: Condvar,
}

#[derive(Default)]
struct Held {
    since: Option<Instant>,
    waiting: usize,
}

impl Hold {
    fn set(&self, held: bool) {
        self.held().since = held.then(Instant::now);
        self.released.notify_all();
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        let mut held = self.held();
        held.waiting += 1;
        loop {
            let left = held.left();
            if left.is_zero() {
                break;
            }
            let woken = self.released.wait_timeout(held, left);
            held = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        held.waiting -= 1;
    }
}

/// The longest time for which a disk can be held: a test that fails meanwhile ends its server or its log, which
/// waits for the disk, and would do so for ever.
const LONGEST_HOLD: Duration = Duration::from_secs(60);

impl Held {
    /// How much longer operations wait.
    fn left(&self) -> Duration {
        let left = |since: Instant| LONGEST_HOLD.saturating_sub(since.elapsed());
        self.since.map_or(Duration::ZERO, left)
    }
}

/// An open file.
pub struct SimulatedFile {
    disk: SimulatedDisk,
    inode: usize,
    writable: bool,
}

impl SimulatedDisk {
    pub fn new(seed: u64) -> Self {
        let state = State {
            files: Files::default(),
            random: Random::new(seed),
            order: Random::new(!seed),
            incarnation: 0,
            counts: [0; Operation::ALL.len()],
            faults: Vec::new(),
            until_stop: None,
            capacity: usize::MAX,
            direct: true,
            knows_reads: false,
            panics_in_reads: false,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            incarnation: 0,
            hold: Arc::default(),
            hold_of_reads: Arc::default(),
        }
    }

    /// A copy that lives on its own.
    pub fn fork(&self) -> Self {
        let state = self.lock();
        let copy = State {
            files: state.files.clone(),
            random: state.random.clone(),
            order: state.order.clone(),
            faults: state.faults.clone(),
            ..*state
        };
        Self {
            state: Arc::new(Mutex::new(copy)),
            incarnation: self.incarnation,
            hold: Arc::default(),
            hold_of_reads: Arc::default(),
        }
    }

    /// How many operations of this kind were begun.
    pub fn count(&self, operation: Operation) -> u64 {
        self.lock().counts[operation as usize]
    }

    /// How many operations of all kinds were begun.
    pub fn operations(&self) -> u64 {
        self.lock().counts.iter().sum()
    }

    /// Makes an operation fail: the `nth` from now, from 0.
    pub fn fail(&self, operation: Operation, nth: u64, fault: Fault) {
        let mut state = self.lock();
        let count = state.counts[operation as usize] + nth;
        state.faults.push((operation, count, fault));
    }

    /// Everything stops in the middle of the `nth` operation from now, from 0. It and all later
    /// ones fail, until [`SimulatedDisk::lose_power`] or [`SimulatedDisk::kill`].
    pub fn stop_at(&self, nth: u64) {
        self.lock().until_stop = Some(nth + 1);
    }

    /// Whether everything has stopped.
    pub fn is_stopped(&self) -> bool {
        self.lock().is_stopped()
    }

    /// The disk has space for so many bytes.
    pub fn set_capacity(&self, bytes: usize) {
        self.lock().capacity = bytes;
    }

    /// Whether files are direct ([`DiskFile::is_direct`]), those that are open included. Until this is
    /// called they are.
    pub fn set_direct(&self, direct: bool) {
        self.lock().direct = direct;
    }

    /// A slow disk: writes and flushes wait, until this is called again with `false`, or for a minute.
    pub fn hold(&self, held: bool) {
        self.hold.set(held);
    }

    /// How many writes and flushes wait because of [`SimulatedDisk::hold`].
    pub fn waiting(&self) -> usize {
        self.hold.held().waiting
    }

    /// The same for reads of files that are open for nothing else.
    pub fn hold_reads(&self, held: bool) {
        self.hold_of_reads.set(held);
    }

    /// How many reads wait because of [`SimulatedDisk::hold_reads`].
    pub fn waiting_reads(&self) -> usize {
        self.hold_of_reads.held().waiting
    }

    /// Whether reads that need not be waited for ([`DiskFile::read_at_hand`]) begin those that must be.
    pub fn know_reads(&self, known: bool) {
        self.lock().knows_reads = known;
    }

    /// Whether threads panic that read files which are open for nothing else.
    pub fn panic_in_reads(&self, panics: bool) {
        self.lock().panics_in_reads = panics;
    }

    /// Takes the power away, and gives it back.
    pub fn lose_power(&self) -> Self {
        let mut state = self.lock();
        let State { files, random, .. } = &mut *state;
        files.lose_power(random);
        self.next_incarnation(&mut state)
    }

    /// Ends the process that has the disk: nothing is lost, nothing is flushed.
    pub fn kill(&self) -> Self {
        self.next_incarnation(&mut self.lock())
    }

    /// Faults that did not come yet are forgotten.
    fn next_incarnation(&self, state: &mut State) -> Self {
        state.until_stop = None;
        state.faults.clear();
        state.incarnation += 1;
        Self {
            state: self.state.clone(),
            incarnation: state.incarnation,
            hold: Arc::clone(&self.hold),
            hold_of_reads: Arc::clone(&self.hold_of_reads),
        }
    }

    /// Names of all files.
    pub fn names(&self) -> Vec<String> {
        self.lock().files.names.keys().cloned().collect()
    }

    /// Contents of a file. `None`: there is none.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.lock();
        let inode = state.files.names.get(name)?;
        Some(state.files.inodes[*inode].seen.clone())
    }

    /// Replaces a file by one with these contents, durably.
    pub fn put(&self, name: &str, contents: &[u8]) {
        let mut state = self.lock();
        let inode = state.files.create(name);
        state.files.inodes[inode].write(0, contents);
        state.files.inodes[inode].flush(0..usize::MAX);
        state.files.flush_folder(folder_of(name));
    }

    /// Turns a bit over, of a file all of which was flushed.
    ///
    /// # Panics
    /// If there is no such byte.
    pub fn flip(&self, name: &str, offset: usize, bit: u8) {
        let mut state = self.lock();
        let inode = state.files.names[name];
        state.files.inodes[inode].flip(offset, bit);
    }

    /// A block of a file cannot be read until it is written again.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn spoil(&self, name: &str, offset: usize) {
        let mut state = self.lock();
        let inode = state.files.names[name];
        state.files.inodes[inode].spoil(offset);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked has said why; the others go on.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, if this handle is alive.
    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.lock();
        if state.incarnation != self.incarnation || state.is_stopped() {
            return Err(eio());
        }
        Ok(state)
    }

    /// Begins an operation. `Some`: that is how it fails.
    fn begin(&self, operation: Operation) -> io::Result<(MutexGuard<'_, State>, Option<Fault>)> {
        if matches!(operation, Operation::Write | Operation::Flush) {
            self.hold.wait();
        }
        let mut state = self.alive()?;
        let count = state.counts[operation as usize];
        state.counts[operation as usize] += 1;
        if let Some(left) = &mut state.until_stop {
            *left -= 1;
            if *left == 0 {
                return Ok((state, Some(Fault::Error)));
            }
        }
        let mut faults = state.faults.iter();
        let place = faults.position(|fault| (fault.0, fault.1) == (operation, count));
        let fault = place.map(|place| state.faults.swap_remove(place).2);
        Ok((state, fault))
    }

    /// Like [`SimulatedDisk::begin`], of an operation that is done wholly or not at all.
    fn begin_simple(&self, operation: Operation) -> io::Result<MutexGuard<'_, State>> {
        match self.begin(operation)? {
            (_, Some(fault)) => Err(fault.error()),
            (state, None) => Ok(state),
        }
    }

    fn file(&self, inode: usize, writable: bool) -> SimulatedFile {
        SimulatedFile {
            disk: self.clone(),
            inode,
            writable,
        }
    }
}

impl Fault {
    fn error(self) -> io::Error {
        match self {
            Self::Full => io::ErrorKind::StorageFull.into(),
            Self::NoDescriptor => errno(Errno::MFILE),
            Self::Interrupted => io::ErrorKind::Interrupted.into(),
            Self::Error | Self::Short | Self::Lie => eio(),
        }
    }
}

fn eio() -> io::Error {
    errno(Errno::IO)
}

fn errno(number: Errno) -> io::Error {
    io::Error::from_raw_os_error(number.raw_os_error())
}

impl Disk for SimulatedDisk {
    type File = SimulatedFile;

    fn create(&self, name: &str) -> io::Result<SimulatedFile> {
        let mut state = self.begin_simple(Operation::Create)?;
        if state.files.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = state.files.create(name);
        Ok(self.file(inode, true))
    }

    fn open(&self, name: &str) -> io::Result<Option<SimulatedFile>> {
        let inode = self.alive()?.files.names.get(name).copied();
        Ok(inode.map(|inode| self.file(inode, false)))
    }

    fn open_for_writing(&self, name: &str) -> io::Result<Option<SimulatedFile>> {
        let state = self.begin_simple(Operation::Open)?;
        let inode = state.files.names.get(name).copied();
        Ok(inode.map(|inode| self.file(inode, true)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (mut state, fault) = self.begin(Operation::Rename)?;
        // If everything stops in the middle, it is not known.
        let happens = fault.is_none() || (state.is_stopped() && state.random.once_in(2));
        let there = !happens || state.files.rename(from, to);
        match fault {
            Some(fault) => Err(fault.error()),
            None => found(there),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.begin_simple(Operation::Remove)?;
        found(state.files.remove(name))
    }

    /// Folders are where names say that they are.
    fn make_folder(&self, _: &str) -> io::Result<()> {
        self.alive().map(drop)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut state = self.alive()?;
        let names = state.files.names.keys();
        let inside = names.filter(|name| folder_of(name) == folder);
        let file = |name: &String| name.rsplit('/').next().unwrap_or_default().to_owned();
        let mut files: Vec<String> = inside.map(file).collect();
        state.order.shuffle(&mut files);
        Ok(files)
    }

    fn flush_folder(&self, folder: &str) -> io::Result<()> {
        match self.begin(Operation::FlushFolder)? {
            (_, Some(Fault::Lie)) => {}
            (_, Some(fault)) => return Err(fault.error()),
            (mut state, None) => state.files.flush_folder(folder),
        }
        Ok(())
    }

    fn free(&self) -> io::Result<u64> {
        let state = self.lock();
        let free = state.capacity.saturating_sub(state.files.space());
        Ok(free as u64)
    }

    fn random(&self) -> io::Result<[u8; 16]> {
        let mut bits = [0; 16];
        self.alive()?.random.fill(&mut bits);
        Ok(bits)
    }
}

fn found(found: bool) -> io::Result<()> {
    match found {
        true => Ok(()),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

impl SimulatedFile {
    fn inode<'a>(&self, state: &'a mut State) -> &'a mut Inode {
        &mut state.files.inodes[self.inode]
    }

    /// Checks what O_DIRECT checks.
    fn check_write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let aligned = |n: usize| n.is_multiple_of(BLOCK);
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if !aligned(offset as usize) || !aligned(bytes.len()) || !aligned(bytes.as_ptr().addr()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(())
    }

    /// Makes sure that there is space for the file up to `end`.
    fn check_space(&self, state: &mut State, end: usize) -> io::Result<()> {
        let more = end.saturating_sub(self.inode(state).space());
        if more > 0 && state.files.space() + more > state.capacity {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    /// Makes durable what was written to a part of the file.
    fn flush_range(&self, range: Range<usize>) -> io::Result<()> {
        match self.disk.begin(Operation::Flush)? {
            (mut state, None) => self.inode(&mut state).flush(range),
            (_, Some(Fault::Lie)) => {}
            // A flush that never returned has said nothing; one that failed has.
            (state, Some(fault)) if state.is_stopped() => return Err(fault.error()),
            (mut state, Some(fault)) => {
                self.inode(&mut state).fail_to_flush(range);
                return Err(fault.error());
            }
        }
        Ok(())
    }

    /// Writes some sectors of a request that fails.
    fn write_some(&self, state: &mut State, offset: usize, bytes: &[u8]) {
        for (n, sector) in bytes.chunks(SECTOR).enumerate() {
            if state.random.once_in(2) {
                self.inode(state).write(offset + n * SECTOR, sector);
            }
        }
    }
}

impl DiskFile for SimulatedFile {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        if !self.writable {
            self.disk.hold_of_reads.wait();
        }
        let mut state = self.disk.alive()?;
        let panics = state.panics_in_reads && !self.writable;
        assert!(!panics, "as the test wants");
        let inode = self.inode(&mut state);
        let rest = inode.seen.get(offset as usize..).unwrap_or(&[]);
        let len = rest.len().min(bytes.len());
        if inode.is_spoiled(offset as usize, len) {
            return Err(eio());
        }
        bytes[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn read_at_hand(&self, _offset: u64, _bytes: &mut [u8]) -> io::Result<usize> {
        let kind = match self.disk.alive()?.knows_reads {
            true => io::ErrorKind::WouldBlock,
            false => io::ErrorKind::Unsupported,
        };
        Err(kind.into())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.check_write(offset, bytes)?;
        let offset = offset as usize;
        let (mut state, fault) = self.disk.begin(Operation::Write)?;
        self.check_space(&mut state, offset + bytes.len())?;
        let written = match fault {
            None => bytes.len(),
            Some(Fault::Short) => {
                let sectors = (bytes.len() / SECTOR) as u64;
                state.random.below(sectors) as usize * SECTOR
            }
            Some(Fault::Interrupted) => return Err(Fault::Interrupted.error()),
            Some(fault) => {
                self.write_some(&mut state, offset, bytes);
                return Err(fault.error());
            }
        };
        self.inode(&mut state).write(offset, &bytes[..written]);
        Ok(written)
    }

    /// What was written to the file before stays as it is, as with RWF_DSYNC.
    fn write_durably(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let written = self.write(offset, bytes)?;
        let offset = offset as usize;
        self.flush_range(offset..offset + written).map(|()| written)
    }

    fn is_direct(&self) -> bool {
        self.disk.lock().direct
    }

    fn flush(&self) -> io::Result<()> {
        self.flush_range(0..usize::MAX)
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        let mut state = self.disk.begin_simple(Operation::Allocate)?;
        let size = round_up(size, BLOCK as u64) as usize;
        self.check_space(&mut state, size)?;
        self.inode(&mut state).allocate(size);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.inode(&mut *self.disk.alive()?).seen.len() as u64)
    }
}
