//! The ring itself.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::io_uring::{
    IoringEnterFlags, IoringRegisterOp, IoringSetupFlags, Timespec, io_uring_enter,
    io_uring_enter_arg, io_uring_files_update, io_uring_getevents_arg, io_uring_params,
    io_uring_ptr, io_uring_register, io_uring_setup,
};

use crate::abi::{self, bpfdb_ring};

/// Places of the submission queue.
pub const ENTRIES: u32 = abi::BPFDB_RING_ENTRIES;
/// Bytes of a completion in the queue.
const COMPLETION: u32 = 16;
/// Bytes of the shared rings before their completions, at most.
const HEAD: u32 = 4096;
/// In a table of registered files: none.
const NO_FILE: i32 = -1;
/// `IORING_SQ_NEED_WAKEUP`.
const NEED_WAKEUP: u32 = 1;

/// A request, as io_uring reads it.
pub type Entry = [u64; abi::BPFDB_RING_ENTRY_WORDS as usize];

/// How a ring is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long the thread of io_uring looks for requests before it sleeps, to a millisecond. It uses a
    /// processor meanwhile. `None`: there is no such thread, and requests wait for [`Ring::submit_and_wait`].
    pub idle: Option<Duration>,
    /// The processor that it runs on; `None`: any.
    pub processor: Option<u32>,
    /// Completions that have room before they are taken; a power of two, at least [`ENTRIES`].
    pub completions: u32,
}

/// What has become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub user_data: u64,
    /// Of a read: bytes, or an errno, negative.
    pub result: i32,
    pub flags: u32,
}

/// An io_uring. It ends when this is dropped, and with it what it has begun.
#[derive(Debug)]
pub struct Ring {
    ring: OwnedFd,
    memory: NonNull<bpfdb_ring>,
    completions: u32,
}

// SAFETY: the memory belongs to no thread, and its words are atomics.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// Makes a ring in memory that no program uses yet.
    ///
    /// # Safety
    /// The memory stays mapped as long as the ring is there; and whatever a request names, until it has
    /// completed.
    ///
    /// # Errors
    /// The system does not allow it.
    pub unsafe fn create(memory: NonNull<bpfdb_ring>, options: &Options) -> io::Result<Self> {
        let completions = options.completions.next_power_of_two().max(ENTRIES);
        assert!(
            HEAD + completions * COMPLETION <= abi::BPFDB_RING_BYTES,
            "completions have room"
        );
        let mut parameters = io_uring_params::default();
        parameters.flags =
            IoringSetupFlags::NO_MMAP | IoringSetupFlags::NO_SQARRAY | IoringSetupFlags::CQSIZE;
        parameters.cq_entries = completions;
        if let Some(idle) = options.idle {
            parameters.flags |= IoringSetupFlags::SQPOLL;
            parameters.sq_thread_idle = (idle.as_millis() as u32).max(1);
        } else {
            // The thread that submits is in the kernel nearly all the time.
            parameters.flags |= IoringSetupFlags::COOP_TASKRUN;
        }
        if let Some(processor) = options.processor {
            parameters.flags |= IoringSetupFlags::SQ_AFF;
            parameters.sq_thread_cpu = processor;
        }
        let all = memory.as_ptr();
        // SAFETY: fields of the memory, whose addresses alone are taken.
        let (entries, rings) = unsafe { (&raw mut (*all).entries, &raw mut (*all).rings) };
        parameters.sq_off.user_addr = io_uring_ptr::new(entries.cast());
        parameters.cq_off.user_addr = io_uring_ptr::new(rings.cast());
        // SAFETY: both have room for what is asked for, and stay: the caller's promise.
        let ring = unsafe { io_uring_setup(ENTRIES, &mut parameters) }?;
        let (sq, cq) = (&parameters.sq_off, &parameters.cq_off);
        // SAFETY: no program reads them yet.
        unsafe {
            (&raw mut (*all).sq_head).write_volatile(sq.head);
            (&raw mut (*all).sq_tail).write_volatile(sq.tail);
            (&raw mut (*all).sq_flags).write_volatile(sq.flags);
            (&raw mut (*all).cq_head).write_volatile(cq.head);
            (&raw mut (*all).cq_tail).write_volatile(cq.tail);
            (&raw mut (*all).cq_entries).write_volatile(cq.cqes);
            (&raw mut (*all).busy).write_volatile(0);
        }
        Ok(Self {
            ring,
            memory,
            completions,
        })
    }

    /// Registers the one buffer that requests read into, or write from.
    ///
    /// # Safety
    /// It stays mapped as long as the ring is there, and no Rust reference to a part of it lives while
    /// a request may write there.
    ///
    /// # Errors
    /// Those of the system.
    pub unsafe fn register_buffer(&self, start: *mut u8, bytes: usize) -> io::Result<()> {
        let buffer = libc::iovec {
            iov_base: start.cast(),
            iov_len: bytes,
        };
        // SAFETY: the caller's promise.
        unsafe { self.register(IoringRegisterOp::RegisterBuffers, &buffer, 1) }
    }

    /// Registers files by their numbers in requests; `None`: to be set later, by [`Self::set_file`].
    ///
    /// # Errors
    /// Those of the system.
    pub fn register_files(&self, files: &[Option<BorrowedFd<'_>>]) -> io::Result<()> {
        let files: Vec<i32> = files.iter().map(descriptor).collect();
        // SAFETY: so many descriptors.
        unsafe {
            self.register(
                IoringRegisterOp::RegisterFiles,
                files.as_ptr(),
                files.len() as u32,
            )
        }
    }

    /// From now on requests have this file by the number, or none. Those that have begun keep theirs.
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_file(&self, number: u32, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let file = descriptor(&file);
        let mut update = io_uring_files_update::default();
        update.offset = number;
        update.fds = io_uring_ptr::new((&raw const file).cast_mut().cast());
        // SAFETY: one descriptor, which lives until the call has ended.
        unsafe { self.register(IoringRegisterOp::RegisterFilesUpdate, &raw const update, 1) }
    }

    /// # Safety
    /// `what` is what the operation wants, `count` of them.
    unsafe fn register<T>(
        &self,
        operation: IoringRegisterOp,
        what: *const T,
        count: u32,
    ) -> io::Result<()> {
        // SAFETY: the caller's promise.
        let done = unsafe { io_uring_register(self.ring.as_fd(), operation, what.cast(), count) };
        Ok(done.map(drop)?)
    }

    /// Puts a request into the queue; false: a program is writing there, or there is no room.
    ///
    /// # Safety
    /// As [`Self::create`] for what the request names.
    pub unsafe fn put(&self, entry: &Entry) -> bool {
        // SAFETY: an aligned word that both sides change by atomic instructions.
        let busy = unsafe { AtomicU32::from_ptr(&raw mut (*self.memory.as_ptr()).busy) };
        let taken = busy.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed);
        if taken.is_err() {
            return false;
        }
        let (head, tail) = (
            self.word(|ring| ring.sq_head),
            self.word(|ring| ring.sq_tail),
        );
        let at = tail.load(Ordering::Relaxed);
        let has_room = at.wrapping_sub(head.load(Ordering::Acquire)) < ENTRIES;
        if has_room {
            let place = (at % ENTRIES) as usize * entry.len();
            // SAFETY: a place of the queue, which io_uring reads when the tail has moved.
            unsafe {
                let entries = (&raw mut (*self.memory.as_ptr()).entries).cast::<u64>();
                ptr::copy_nonoverlapping(entry.as_ptr(), entries.add(place), entry.len());
            }
            tail.store(at.wrapping_add(1), Ordering::Release);
        }
        busy.store(0, Ordering::SeqCst);
        has_room
    }

    /// Has io_uring's thread look at what stands in the queue, if it sleeps.
    ///
    /// # Errors
    /// Those of the system.
    pub fn wake(&self) -> io::Result<()> {
        // SAFETY: wakes a thread.
        let entered =
            unsafe { io_uring_enter(self.ring.as_fd(), 0, 0, IoringEnterFlags::SQ_WAKEUP) };
        Ok(entered.map(drop)?)
    }

    /// Of a ring without a thread of io_uring: submits what stands in the queue, and waits for a completion that
    /// is not taken yet, but not longer than `most`. What else the kernel does for these requests it does in the thread
    /// that has submitted them.
    ///
    /// # Errors
    /// Those of the system; `Interrupted`: a signal has come.
    pub fn submit_and_wait(&self, most: Duration) -> io::Result<()> {
        let word = |word: &AtomicU32| word.load(Ordering::Acquire);
        let (head, tail) = (
            word(self.word(|ring| ring.sq_head)),
            word(self.word(|ring| ring.sq_tail)),
        );
        // Were it more than there are, the kernel would not wait.
        let requests = tail.wrapping_sub(head);
        let most = Timespec::try_from(most).map_err(|_| io::ErrorKind::InvalidInput)?;
        let wait = io_uring_getevents_arg {
            ts: io_uring_ptr::new((&raw const most).cast_mut().cast()),
            ..Default::default()
        };
        let flags = IoringEnterFlags::GETEVENTS | IoringEnterFlags::EXT_ARG;
        // SAFETY: what stands in the queue was put there by those who promise that it may be done; the time
        // lives until the call has ended.
        let entered =
            unsafe { io_uring_enter_arg(self.ring.as_fd(), requests, 1, flags, Some(&wait)) };
        match entered {
            Ok(_) | Err(Errno::TIME) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether requests wait in the queue, and io_uring's thread sleeps, so that they do until
    /// [`Self::wake`].
    pub fn sleeps_over_requests(&self) -> bool {
        let flags = self.word(|ring| ring.sq_flags).load(Ordering::SeqCst);
        let word = |word: &AtomicU32| word.load(Ordering::Acquire);
        flags & NEED_WAKEUP != 0
            && word(self.word(|ring| ring.sq_head)) != word(self.word(|ring| ring.sq_tail))
    }

    /// Takes the completions that are there. One thread at a time.
    pub fn take(&self, mut each: impl FnMut(Completion)) {
        let (head, tail) = (
            self.word(|ring| ring.cq_head),
            self.word(|ring| ring.cq_tail),
        );
        let (mut at, end) = (head.load(Ordering::Relaxed), tail.load(Ordering::Acquire));
        while at != end {
            // SAFETY: within the rings, of which a completion has 16 bytes; io_uring writes it again when the
            // head has moved.
            let (user_data, result, flags) = unsafe {
                let all = self.memory.as_ptr();
                let start = (&raw const (*all).cq_entries).read_volatile();
                let place = start + (at & (self.completions - 1)) * COMPLETION;
                let place = (&raw mut (*all).rings).cast::<u8>().add(place as usize);
                (
                    place.cast::<u64>().read_volatile(),
                    place.add(8).cast::<i32>().read_volatile(),
                    place.add(12).cast::<u32>().read_volatile(),
                )
            };
            each(Completion {
                user_data,
                result,
                flags,
            });
            at = at.wrapping_add(1);
            head.store(at, Ordering::Release);
        }
    }

    /// The word of io_uring whose place `at` reads.
    fn word(&self, at: impl FnOnce(&Places) -> u32) -> &AtomicU32 {
        let all = self.memory.as_ptr();
        // SAFETY: words that are not written after create().
        let places = unsafe {
            Places {
                sq_head: (&raw const (*all).sq_head).read_volatile(),
                sq_tail: (&raw const (*all).sq_tail).read_volatile(),
                sq_flags: (&raw const (*all).sq_flags).read_volatile(),
                cq_head: (&raw const (*all).cq_head).read_volatile(),
                cq_tail: (&raw const (*all).cq_tail).read_volatile(),
            }
        };
        let at = at(&places);
        assert!(at.is_multiple_of(4) && at < abi::BPFDB_RING_BYTES);
        // SAFETY: within the rings, aligned; both sides use atomic instructions.
        unsafe { AtomicU32::from_ptr((&raw mut (*all).rings).cast::<u8>().add(at as usize).cast()) }
    }
}

/// Where io_uring has its words.
struct Places {
    sq_head: u32,
    sq_tail: u32,
    sq_flags: u32,
    cq_head: u32,
    cq_tail: u32,
}

fn descriptor(file: &Option<BorrowedFd<'_>>) -> i32 {
    file.as_ref().map_or(NO_FILE, AsRawFd::as_raw_fd)
}
