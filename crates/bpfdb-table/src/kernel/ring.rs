//! The io_uring whose rings lie in the program's memory.

use std::fs::{File, OpenOptions};
use std::io::{Error as IoError, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::memory::Memory;
use crate::abi::{self, bpfdb_table_shape};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::table::Table;

/// `IORING_OP_POLL_ADD`, again and again, and `POLLIN`.
const POLL_ADD: u64 = 6;
const POLL_MULTI: u64 = 1;
const POLL_IN: u64 = 1 << 32;
const POLL_OUT: u64 = 4 << 32;
/// User data that no chain has: the first bit; and the bit by which that of the programs' bell is another one.
const HELLO: u64 = 1 << 63;
const HELLO_PROGRAMS: u64 = 1;

/// The upper levels of most tables.
const POOL: usize = 1 << 20;

/// How chains run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainOptions {
    /// How long the thread of io_uring looks for work before it sleeps. It uses a processor meanwhile.
    pub idle: Duration,
    /// The processor that it runs on; `None`: any.
    pub processor: Option<u32>,
    /// How long the process looks for an answer before it sleeps.
    pub spin: Duration,
    /// Look-ups that run at the same time, if many are asked for: 1 to 64.
    pub together: usize,
    /// Bytes of blocks that are kept in memory, in a [`Pool`](crate::Pool) of these chains alone; 0: none.
    pub pool: usize,
    /// Chains that are kept for programs of others ([`Chains::share_with`](crate::Chains::share_with)): 63 at most.
    pub programs: usize,
}

impl ChainOptions {
    /// One is left for the process.
    pub(crate) fn programs_within(&self) -> usize {
        self.programs.min(abi::BPFDB_TABLE_CHAINS as usize - 1)
    }
}

impl Default for ChainOptions {
    fn default() -> Self {
        Self {
            idle: Duration::from_millis(20),
            processor: None,
            spin: Duration::ZERO,
            together: abi::BPFDB_TABLE_CHAINS as usize,
            pool: POOL,
            programs: 0,
        }
    }
}

/// Its rings are in memory that outlives it.
#[derive(Debug)]
pub(crate) struct Ring {
    ring: bpfdb_ring::Ring,
    doorbell: OwnedFd,
    _file: File,
}

fn unavailable(what: &str) -> impl FnOnce(IoError) -> Error {
    move |error| Error::Unavailable(format!("cannot {what}: {error}"))
}

fn system(what: &str) -> impl FnOnce(rustix::io::Errno) -> Error {
    move |error| unavailable(what)(error.into())
}

/// The same file past the page cache, which the file system must be able to read block by block.
fn reopen(table: &Table) -> Result<File> {
    let path = format!("/proc/self/fd/{}", table.file().as_raw_fd());
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path);
    let file = opened.map_err(unavailable("open the table with O_DIRECT"))?;
    let block = &mut Buffer::new()[..table.block_size()];
    let read = file.read_exact_at(block, table.offset(table.about().root));
    read.map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => {
            let size = table.block_size();
            Error::Unavailable(format!("the disk is not read in blocks of {size} bytes"))
        }
        _ => unavailable("read the table with O_DIRECT")(error),
    })?;
    Ok(file)
}

impl Ring {
    /// The program gets the ring, and may be attached when this returns. [`Ring::begin`] comes then.
    /// `frames`: of the pool; `bell`: the map by which programs of others ring.
    pub(crate) fn create(
        memory: &Memory,
        table: &Table,
        frames: u32,
        bell: BorrowedFd<'_>,
        options: &ChainOptions,
    ) -> Result<Self> {
        let file = reopen(table)?;
        let settings = bpfdb_ring::Options {
            idle: Some(options.idle),
            processor: options.processor,
            completions: 2 * bpfdb_ring::ENTRIES,
        };
        // SAFETY: `Memory` stays mapped for as long as the ring is there, and no Rust reference to a buffer lives
        // while a read may write to it.
        let ring = unsafe { bpfdb_ring::Ring::create(memory.ring(), &settings) };
        let ring = ring.map_err(unavailable("make an io_uring"))?;
        // SAFETY: as above.
        let registered =
            unsafe { ring.register_buffer(memory.buffers(), abi::BPFDB_TABLE_BUFFERS as usize) };
        registered.map_err(unavailable("register buffers"))?;
        let registered = ring.register_files(&[Some(file.as_fd())]);
        registered.map_err(unavailable("register the table"))?;
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let doorbell = doorbell.map_err(system("make an eventfd"))?;
        let mut hello = [0; 8];
        rustix::rand::getrandom(&mut hello, rustix::rand::GetRandomFlags::empty())
            .map_err(system("get a random number"))?;
        let hello = u64::from_le_bytes(hello) | HELLO;
        let about = table.about();
        memory.set_shape(bpfdb_table_shape {
            id: about.id,
            root: about.root,
            leaves: about.leaves,
            depth: about.depth,
            block_size: about.block_size,
            buffers: memory.buffers().expose_provenance() as u64,
            states: memory.chain(0).expose_provenance() as u64,
            hello,
            doorbell: doorbell.as_raw_fd() as u32,
            frames,
            bell: bell.as_raw_fd() as u32,
            programs: options.programs_within() as u32,
        });
        let ring = Self {
            ring,
            doorbell,
            _file: file,
        };
        ring.poll(ring.doorbell.as_fd(), POLL_IN, hello)?;
        if options.programs > 0 {
            ring.poll(bell, POLL_OUT, hello ^ HELLO_PROGRAMS)?;
        }
        Ok(ring)
    }

    /// Puts the poll of a file into the submission queue. Behind that only the program writes there.
    fn poll(&self, file: BorrowedFd<'_>, events: u64, user_data: u64) -> Result<()> {
        let poll = [
            POLL_ADD | (file.as_raw_fd() as u64) << 32,
            0,
            0,
            POLL_MULTI | events,
            user_data,
            0,
            0,
            0,
        ];
        // SAFETY: it names a file alone.
        match unsafe { self.ring.put(&poll) } {
            true => Ok(()),
            false => Err(unavailable("poll a bell")(ErrorKind::WouldBlock.into())),
        }
    }

    /// Has io_uring's thread look at what stands in the queue.
    pub(crate) fn begin(&self) -> Result<()> {
        self.ring.wake().map_err(unavailable("start the io_uring"))
    }

    /// The program looks for chains that are READY.
    pub(crate) fn knock(&self) -> Result<()> {
        let written = rustix::io::write(&self.doorbell, &1u64.to_ne_bytes());
        written.map(drop).map_err(system("ring the doorbell"))
    }
}
