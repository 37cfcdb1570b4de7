//! The kernel's view of the connections: its map, mapped into this process.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bpfdb::abi;

use crate::error::{Result, system};

/// What a connection keeps for the front end.
pub(super) type FrontEndWords = [u32; abi::BPFDB_FRONT_END_WORDS as usize];

const STRIDE: usize = size_of::<abi::bpfdb_connection>().next_multiple_of(8);

/// What `arrived` says of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived(u64);

impl Arrived {
    pub(crate) fn is_daemon(self) -> bool {
        self.0 & abi::BPFDB_CONNECTION_DAEMON != 0
    }

    pub(crate) fn is_plain(self) -> bool {
        self.0 & abi::BPFDB_CONNECTION_PLAIN != 0
    }

    pub(crate) fn is_closed(self) -> bool {
        self.0 & abi::BPFDB_CONNECTION_CLOSED != 0
    }

    pub(crate) fn is_broken(self) -> bool {
        self.0 & abi::BPFDB_CONNECTION_BROKEN != 0
    }

    pub(crate) fn bytes(self) -> u64 {
        self.0 & abi::BPFDB_CONNECTION_BYTES
    }
}

#[derive(Debug)]
pub(crate) struct KernelConnections {
    start: NonNull<u8>,
    entries: u32,
    /// Of each connection: its cookie, and what the kernel had answered when it was handed
    /// back.
    handed_back: Vec<Cell<(u64, u64)>>,
}

impl KernelConnections {
    pub(crate) fn map(map: BorrowedFd<'_>, entries: u32) -> Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length(entries),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(system("map the connections")(io::Error::last_os_error()));
        }
        Ok(Self {
            start: NonNull::new(start.cast()).expect("mmap does not return NULL"),
            entries,
            handed_back: vec![Cell::default(); entries as usize],
        })
    }

    pub(crate) fn len(&self) -> u32 {
        self.entries
    }

    /// Indexes and cookies of the connections that have a session.
    pub(crate) fn open(&self) -> impl Iterator<Item = (u32, u64)> {
        let all = (0..self.entries).map(|index| (index, self.cookie(index)));
        all.filter(|&(_, cookie)| cookie != 0 && cookie & abi::BPFDB_COOKIE_RETIRED == 0)
    }

    fn at(&self, index: u32) -> *mut abi::bpfdb_connection {
        assert!(index < self.entries);
        // SAFETY: inside the mapping.
        unsafe { self.start.as_ptr().add(index as usize * STRIDE).cast() }
    }

    /// The front end's own words of a connection.
    pub(super) fn front_end(&self, index: u32) -> *mut FrontEndWords {
        // SAFETY: at() points into the mapping.
        unsafe { &raw mut (*self.at(index)).front_end }
    }

    fn word(&self, word: *mut u64) -> &AtomicU64 {
        // SAFETY: an aligned word of the mapping, which lives as long as self
        // and is changed by atomic instructions, or by one side only.
        unsafe { AtomicU64::from_ptr(word) }
    }

    fn arrived_word(&self, index: u32) -> &AtomicU64 {
        // SAFETY: at() points into the mapping.
        self.word(unsafe { &raw mut (*self.at(index)).arrived })
    }

    pub(crate) fn arrived(&self, index: u32) -> Arrived {
        Arrived(self.arrived_word(index).load(Ordering::Acquire))
    }

    /// Changes whenever the client has sent something.
    pub(crate) fn activity(&self, index: u32) -> u64 {
        // SAFETY: as above.
        let local = self.word(unsafe { &raw mut (*self.at(index)).local });
        self.arrived(index)
            .bytes()
            .wrapping_add(local.load(Ordering::Relaxed))
    }

    fn answered(&self, index: u32) -> u64 {
        // SAFETY: as above.
        self.word(unsafe { &raw mut (*self.at(index)).answered })
            .load(Ordering::Acquire)
    }

    /// Bytes that arrived and that neither side has taken in.
    pub(crate) fn waiting(&self, index: u32, consumed: u64) -> u64 {
        let arrived = self.arrived(index).bytes();
        arrived.saturating_sub(self.answered(index) + consumed)
    }

    /// Has the kernel's worker brought everything to a program or to the daemon? The daemon's
    /// connection stays so: what arrives then is passed to it directly (`worker_is_idle`,
    /// `bpf/net/verdict.bpf.h`). If the kernel ran short of memory in the midst of handing a message
    /// over, its rest is counted twice. From then on the answer is no, so that nothing is passed
    /// directly and the daemon fills less of the send buffer; but yes if just as many bytes wait.
    pub(crate) fn worker_is_idle(&self, index: u32) -> bool {
        // SAFETY: as above.
        let (handed, passed) = unsafe {
            let connection = self.at(index);
            let handed = self.word(&raw mut (*connection).handed);
            (handed, self.word(&raw mut (*connection).passed))
        };
        let brought = handed.load(Ordering::Acquire) + passed.load(Ordering::Acquire);
        self.arrived(index).bytes() == self.answered(index) + brought
    }

    /// Bytes that wait, as far as the daemon has said what it has taken in.
    pub(crate) fn unanswered(&self, index: u32) -> u64 {
        // SAFETY: as above.
        let consumed = self.word(unsafe { &raw mut (*self.at(index)).consumed });
        self.waiting(index, consumed.load(Ordering::Relaxed))
    }

    /// Has the kernel answered something since it was given the connection?
    pub(crate) fn has_answered(&self, index: u32) -> bool {
        let (cookie, before) = self.handed_back[index as usize].get();
        // Else it is of a connection that is gone.
        let before = if cookie == self.cookie(index) {
            before
        } else {
            0
        };
        self.answers(index) != before
    }

    /// Is it the connection with this cookie that has the session of this index now? The
    /// daemon hears later that one has ended, and another one has come.
    pub(crate) fn has_cookie(&self, index: u32, cookie: u64) -> bool {
        self.cookie(index) == cookie
    }

    fn cookie(&self, index: u32) -> u64 {
        // SAFETY: as above.
        self.word(unsafe { &raw mut (*self.at(index)).cookie })
            .load(Ordering::Relaxed)
    }

    /// Changes whenever the kernel answers: bytes of requests that came through TCP, and
    /// requests answered in the client's own send().
    fn answers(&self, index: u32) -> u64 {
        // SAFETY: as above.
        let local = self.word(unsafe { &raw mut (*self.at(index)).local });
        self.answered(index)
            .wrapping_add(local.load(Ordering::Relaxed))
    }

    /// The kernel keeps the beginning of a request until its rest arrives, and less than that has: of
    /// so many bytes that [wait](Self::waiting). With as many the worker has something to do.
    pub(crate) fn is_assembling(&self, index: u32, waiting: u64) -> bool {
        // SAFETY: as above.
        let corked = unsafe { AtomicU32::from_ptr(&raw mut (*self.at(index)).corked) };
        waiting < corked.load(Ordering::Acquire).into()
    }

    pub(crate) fn set_consumed(&self, index: u32, consumed: u64) {
        // SAFETY: as above.
        self.word(unsafe { &raw mut (*self.at(index)).consumed })
            .store(consumed, Ordering::Release);
    }

    /// Tells the kernel whether a long argument is on its way: then more may wait.
    pub(crate) fn set_patient(&self, index: u32, patient: bool) {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.at(index)).patient) }
            .store(patient.into(), Ordering::Release);
    }

    /// In which seat its requests may be parked, in the state Daemon; `None`: in none.
    pub(crate) fn set_seat(&self, index: u32, seat: Option<u32>) {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.at(index)).seat) }
            .store(seat.map_or(0, |number| number + 1), Ordering::Release);
    }

    /// The request that was parked is the daemon's, in the state Daemon.
    pub(crate) fn end_parking(&self, index: u32) {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.at(index)).parked) }
            .store(0, Ordering::Release);
    }

    /// Takes a connection of which a request is parked, and is the daemon's: so nothing else uses it.
    pub(crate) fn take(&self, index: u32) {
        self.arrived_word(index)
            .fetch_or(abi::BPFDB_CONNECTION_DAEMON, Ordering::SeqCst);
    }

    /// How it is served: one of enum bpfdb_way.
    pub(crate) fn way(&self, index: u32) -> u32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.at(index)).way) }.load(Ordering::Relaxed)
    }

    /// Gives the connection back to the kernel, if every byte that arrived has
    /// been answered by one of us; `sent` are the bytes that we sent, ever.
    pub(crate) fn hand_back(&self, index: u32, consumed: u64, sent: u64) -> bool {
        let all = self.answered(index) + consumed;
        self.handed_back[index as usize].set((self.cookie(index), self.answers(index)));
        // SAFETY: as above.
        self.word(unsafe { &raw mut (*self.at(index)).sent })
            .store(sent, Ordering::Release);
        // SAFETY: as above.
        let rebase = unsafe { AtomicU32::from_ptr(&raw mut (*self.at(index)).rebase) };

        rebase.store(1, Ordering::Release);
        self.arrived_word(index)
            .compare_exchange(
                abi::BPFDB_CONNECTION_DAEMON | all,
                all,
                Ordering::SeqCst,
                Ordering::Relaxed,
            )
            .is_ok()
    }
}

impl Drop for KernelConnections {
    fn drop(&mut self) {
        // SAFETY: the mapping made in map(), not used any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), length(self.entries)) };
    }
}

fn length(entries: u32) -> usize {
    (STRIDE * entries as usize).next_multiple_of(4096)
}
