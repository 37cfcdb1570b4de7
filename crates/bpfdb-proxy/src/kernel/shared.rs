//! Memory that the programs and the process change, and a client's word.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::abi;
use crate::error::{Result, system};
use crate::traffic::Traffic;

/// A client's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

impl Word {
    pub(crate) fn new(state: u32, server: u32, generation: u32) -> Self {
        let generation = u64::from(generation) << abi::BPFDB_PROXY_GENERATION_SHIFT;
        Self(u64::from(state) | u64::from(server) << abi::BPFDB_PROXY_SERVER_SHIFT | generation)
    }

    pub(crate) fn with(self, flag: u64, is_set: bool) -> Self {
        Self(if is_set {
            self.0 | flag
        } else {
            self.0 & !flag
        })
    }

    /// Without a server; its unnamed statement is as it was.
    pub(crate) fn idle(self) -> Self {
        let kept = abi::BPFDB_PROXY_UNNAMED & !abi::BPFDB_PROXY_HAS;
        let idle = Self::new(abi::BPFDB_PROXY_IDLE, 0, self.generation());
        Self(idle.0 | self.0 & kept)
    }

    pub(crate) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn state(self) -> u32 {
        (self.0 & abi::BPFDB_PROXY_STATE) as u32
    }

    pub(crate) fn server(self) -> u32 {
        ((self.0 & abi::BPFDB_PROXY_SERVER) >> abi::BPFDB_PROXY_SERVER_SHIFT) as u32
    }

    pub(crate) fn due(self) -> usize {
        ((self.0 & abi::BPFDB_PROXY_DUE) >> abi::BPFDB_PROXY_DUE_SHIFT) as usize
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 >> abi::BPFDB_PROXY_GENERATION_SHIFT) as u32
    }
}

/// The map `.bss.proxy`.
#[derive(Debug)]
pub(crate) struct Shared {
    start: NonNull<abi::bpfdb_proxy_all>,
    /// Servers that the programs know.
    servers: RefCell<Vec<u32>>,
}

const LENGTH: usize = size_of::<abi::bpfdb_proxy_all>();

/// A field of the shared memory as an atomic.
macro_rules! atomic {
    ($kind:ty, $pointer:expr, $field:ident) => {{
        // SAFETY: the field is within the mapping, aligned, and of the size of the atomic; programs
        // change it by atomic instructions.
        unsafe { <$kind>::from_ptr(&raw mut (*$pointer).$field) }
    }};
}

impl Shared {
    pub(crate) fn map(map: BorrowedFd<'_>) -> Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                LENGTH,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(system("map the programs' memory")(
                io::Error::last_os_error(),
            ));
        }
        Ok(Self {
            start: NonNull::new(start.cast()).expect("mmap does not return NULL"),
            servers: RefCell::default(),
        })
    }

    /// A client's part. Only its own fields are used of it.
    pub(crate) fn client(&self, slot: u32) -> *mut abi::bpfdb_proxy_client {
        assert!(slot < abi::BPFDB_PROXY_CLIENTS);
        // SAFETY: within the mapping.
        unsafe {
            (&raw mut (*self.start.as_ptr()).clients)
                .cast::<abi::bpfdb_proxy_client>()
                .add(slot as usize)
        }
    }

    pub(crate) fn server(&self, slot: u32) -> *mut abi::bpfdb_proxy_server {
        assert!(slot < abi::BPFDB_PROXY_SERVERS);
        // SAFETY: within the mapping.
        unsafe {
            (&raw mut (*self.start.as_ptr()).servers)
                .cast::<abi::bpfdb_proxy_server>()
                .add(slot as usize)
        }
    }

    fn pool(&self, pool: u32) -> *mut abi::bpfdb_proxy_pool {
        assert!(pool < abi::BPFDB_PROXY_POOLS);
        // SAFETY: within the mapping.
        unsafe {
            (&raw mut (*self.start.as_ptr()).pools)
                .cast::<abi::bpfdb_proxy_pool>()
                .add(pool as usize)
        }
    }

    pub(crate) fn word(&self, slot: u32) -> &AtomicU64 {
        atomic!(AtomicU64, self.client(slot), word)
    }

    pub(crate) fn owner(&self, slot: u32) -> &AtomicU32 {
        atomic!(AtomicU32, self.server(slot), owner)
    }

    /// The client that has a server, or has had it last; `None`: no client, or the process.
    pub(crate) fn owner_slot(&self, server: u32) -> Option<u32> {
        let owner = self.owner(server).load(Ordering::SeqCst);
        let is_client = (1..=abi::BPFDB_PROXY_CLIENTS).contains(&owner);
        is_client.then(|| owner - 1)
    }

    /// When a client has sent its last request that the kernel has brought, ns; 0: none.
    pub(crate) fn asked(&self, client: u32) -> u64 {
        atomic!(AtomicU64, self.client(client), asked).load(Ordering::Relaxed)
    }

    /// Copies of a client's requests that were submitted, or are about to be.
    pub(crate) fn copies(&self, client: u32) -> u32 {
        atomic!(AtomicU32, self.client(client), copies).load(Ordering::SeqCst)
    }

    /// A client's transactions for whose copies there was no room.
    pub(crate) fn lost(&self, client: u32) -> u32 {
        atomic!(AtomicU32, self.client(client), lost).load(Ordering::SeqCst)
    }

    /// What went over a server within the kernel.
    pub(crate) fn traffic(&self, server: u32) -> Traffic {
        // SAFETY: within the mapping; numbers for people.
        let there = unsafe { (&raw const (*self.server(server)).traffic).read_volatile() };
        Traffic {
            queries: there.queries,
            transactions: there.transactions,
            received: there.received,
            sent: there.sent,
            query_time: there.query_time,
            transaction_time: there.transaction_time,
            wait_time: there.wait_time,
        }
    }

    /// When the request came whose reply is awaited, and the first of the transaction; ns, 0: none.
    pub(crate) fn times(&self, server: u32) -> (u64, u64) {
        let server = self.server(server);
        let asked = atomic!(AtomicU64, server, asked).load(Ordering::Relaxed);
        let begun = atomic!(AtomicU64, server, begun).load(Ordering::Relaxed);
        (asked, begun)
    }

    pub(crate) fn set_times(&self, server: u32, asked: u64, begun: u64) {
        let server = self.server(server);
        atomic!(AtomicU64, server, asked).store(asked, Ordering::Relaxed);
        atomic!(AtomicU64, server, begun).store(begun, Ordering::Relaxed);
    }

    /// How many clients wait in the process for a server of the pool.
    pub(crate) fn set_wanted(&self, pool: u32, clients: usize) {
        let wanted = atomic!(AtomicU32, self.pool(pool), wanted);
        wanted.store(clients as u32, Ordering::SeqCst);
    }

    /// Whether it has all servers that it may have.
    pub(crate) fn set_full(&self, pool: u32, is_full: bool) {
        let full = atomic!(AtomicU32, self.pool(pool), is_full);
        full.store(u32::from(is_full), Ordering::SeqCst);
    }

    /// Whether the process gets a copy of each request, and whether each copy wakes it.
    pub(crate) fn set_mirrored(&self, pool: u32, is_mirrored: bool, wakes: bool) {
        let unwoken = atomic!(AtomicU32, self.pool(pool), copies_unwoken);
        unwoken.store(u32::from(!wakes), Ordering::SeqCst);
        let mirrored = atomic!(AtomicU32, self.pool(pool), is_mirrored);
        mirrored.store(u32::from(is_mirrored), Ordering::SeqCst);
    }

    /// A client that may be WAITING, which is not in the set any more.
    pub(crate) fn pop_waiting(&self, pool: u32) -> Option<u32> {
        let waiting = self.pool(pool);
        (0..abi::BPFDB_PROXY_CLIENT_WORDS).find_map(|index| {
            // SAFETY: as in the macro; the index is one of the array.
            let word = unsafe {
                AtomicU64::from_ptr(
                    (&raw mut (*waiting).waiting)
                        .cast::<u64>()
                        .add(index as usize),
                )
            };
            let all = word.load(Ordering::SeqCst);
            let bit = (all != 0).then(|| all.trailing_zeros())?;
            let before = word.fetch_and(!(1 << bit), Ordering::SeqCst);
            (before & 1 << bit != 0).then_some(index * abi::BPFDB_PROXY_BITS + bit)
        })
    }

    /// Bytes of the request that waits.
    pub(crate) fn parked(&self, slot: u32) -> &AtomicU32 {
        atomic!(AtomicU32, self.client(slot), parked)
    }

    /// Whether a server may be free.
    pub(crate) fn list(&self, pool: u32, slot: u32, is_free: bool) {
        let (word, bit) = (slot / abi::BPFDB_PROXY_BITS, slot % abi::BPFDB_PROXY_BITS);
        let free = self.pool(pool);
        // SAFETY: as in the macro; the word is within the array, since the slot is one.
        let word = unsafe {
            AtomicU64::from_ptr((&raw mut (*free).free).cast::<u64>().add(word as usize))
        };
        if is_free {
            word.fetch_or(1 << bit, Ordering::SeqCst);
        } else {
            word.fetch_and(!(1 << bit), Ordering::SeqCst);
        }
    }

    /// A word of the bits of a server, by numbers of statements.
    fn statements(&self, server: u32, kind: Bits, number: u32) -> (&AtomicU64, u64) {
        assert!(number < abi::BPFDB_PROXY_STATEMENTS);
        let server = self.server(server);
        let (word, bit) = (
            number / abi::BPFDB_PROXY_BITS,
            number % abi::BPFDB_PROXY_BITS,
        );
        // SAFETY: as in the macro; the word is within the array, since the number is one.
        let word = unsafe {
            let all = match kind {
                Bits::Statements => (&raw mut (*server).statements).cast::<u64>(),
                Bits::Used => (&raw mut (*server).used).cast::<u64>(),
            };
            AtomicU64::from_ptr(all.add(word as usize))
        };
        (word, 1 << bit)
    }

    /// A statement is another one from now on, which no server has.
    pub(crate) fn forget_statement(&self, number: u32) {
        for server in self.servers.borrow().iter() {
            let (word, bit) = self.statements(*server, Bits::Statements, number);
            word.fetch_and(!bit, Ordering::SeqCst);
        }
    }

    /// A server that the programs get to know, without statements.
    pub(crate) fn begin_server(&self, server: u32) {
        self.forget_statements(server);
        self.servers.borrow_mut().push(server);
    }

    pub(crate) fn end_server(&self, server: u32) {
        self.servers.borrow_mut().retain(|known| *known != server);
    }

    fn forget_statements(&self, server: u32) {
        for number in (0..abi::BPFDB_PROXY_STATEMENTS).step_by(abi::BPFDB_PROXY_BITS as usize) {
            for kind in [Bits::Statements, Bits::Used] {
                let (word, _) = self.statements(server, kind, number);
                word.store(0, Ordering::SeqCst);
            }
        }
    }

    /// Messages of the last batch that a client's server has answered, if nothing is due.
    pub(crate) fn answered(&self, slot: u32) -> usize {
        atomic!(AtomicU32, self.client(slot), answered).load(Ordering::SeqCst) as usize
    }

    /// Messages that a server has answered since its last ReadyForQuery.
    pub(crate) fn answers(&self, server: u32) -> usize {
        // SAFETY: within the mapping; a number.
        let stream = unsafe { (&raw const (*self.server(server)).stream).read_volatile() };
        stream.answers as usize
    }

    /// Requests of a client that were brought within its send().
    pub(crate) fn requests(&self, slot: u32) -> u64 {
        atomic!(AtomicU64, self.client(slot), requests).load(Ordering::Relaxed)
    }

    /// ReadyForQuery messages that a server's send() has brought to clients.
    pub(crate) fn replies(&self, slot: u32) -> u64 {
        self.traffic(slot).queries
    }

    /// Requests that were brought within clients' send(), and why others were not.
    pub(crate) fn figures(&self) -> (u64, abi::bpfdb_proxy_counters) {
        // SAFETY: within the mapping; numbers for people.
        let requests = |slot| unsafe { (&raw const (*self.client(slot)).requests).read_volatile() };
        let all = (0..abi::BPFDB_PROXY_CLIENTS).map(requests).sum();
        // SAFETY: as above.
        let counters = unsafe { (&raw const (*self.start.as_ptr()).counters).read_volatile() };
        (all, counters)
    }
}

#[derive(Clone, Copy, Debug)]
enum Bits {
    Statements,
    Used,
}

/// Which statements a server has, for the programs.
#[derive(Debug)]
pub(crate) struct Present {
    pub(crate) shared: Rc<Shared>,
    pub(crate) server: u32,
}

impl Present {
    pub(crate) fn set(&self, number: u32, is_there: bool) {
        let (word, bit) = self
            .shared
            .statements(self.server, Bits::Statements, number);
        if is_there {
            word.fetch_or(bit, Ordering::SeqCst);
        } else {
            word.fetch_and(!bit, Ordering::SeqCst);
        }
    }

    pub(crate) fn clear(&self) {
        self.shared.forget_statements(self.server);
    }

    /// Have the programs used one since this was asked before?
    pub(crate) fn take_used(&self, number: u32) -> bool {
        let (word, bit) = self.shared.statements(self.server, Bits::Used, number);
        word.fetch_and(!bit, Ordering::SeqCst) & bit != 0
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: our mapping, which nothing refers to any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), LENGTH) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_its_parts() {
        let word = Word::new(abi::BPFDB_PROXY_LINKED, 1023, 0xffff);
        let word = word.with(abi::BPFDB_PROXY_SLOW, true);
        assert_eq!(
            (word.state(), word.server()),
            (abi::BPFDB_PROXY_LINKED, 1023)
        );
        assert_eq!((word.generation(), word.due()), (0xffff, 0));
        assert!(word.has(abi::BPFDB_PROXY_SLOW) && !word.has(abi::BPFDB_PROXY_PINNED));
        let word = word
            .with(abi::BPFDB_PROXY_PARSED, true)
            .with(abi::BPFDB_PROXY_HAS, true)
            .idle();
        assert!(word.has(abi::BPFDB_PROXY_PARSED) && !word.has(abi::BPFDB_PROXY_HAS));
        assert_eq!((word.state(), word.server()), (abi::BPFDB_PROXY_IDLE, 0));
    }
}
