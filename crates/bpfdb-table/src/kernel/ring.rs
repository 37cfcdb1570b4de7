//! The io_uring whose rings lie in the program's memory.

use std::fs::{File, OpenOptions};
use std::io::{Error as IoError, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::ptr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io_uring::{
    IoringEnterFlags, IoringRegisterOp, IoringSetupFlags, io_uring_enter, io_uring_params,
    io_uring_ptr, io_uring_register, io_uring_setup,
};

use super::memory::Memory;
use crate::abi::{self, bpfdb_table_shape};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::table::Table;

/// `IORING_OP_POLL_ADD`, again and again, and `POLLIN`.
const POLL_ADD: u64 = 6;
const POLL_MULTI: u64 = 1;
const POLL_IN: u64 = 1 << 32;
/// User data that no chain has: the first bit.
const HELLO: u64 = 1 << 63;

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
}

impl Default for ChainOptions {
    fn default() -> Self {
        Self {
            idle: Duration::from_millis(20),
            processor: None,
            spin: Duration::ZERO,
            together: abi::BPFDB_TABLE_CHAINS as usize,
        }
    }
}

/// Its rings are in memory that outlives it.
#[derive(Debug)]
pub(crate) struct Ring {
    _ring: OwnedFd,
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
    pub(crate) fn create(memory: &Memory, table: &Table, options: &ChainOptions) -> Result<Self> {
        let file = reopen(table)?;
        let mut parameters = io_uring_params::default();
        parameters.flags =
            IoringSetupFlags::SQPOLL | IoringSetupFlags::NO_MMAP | IoringSetupFlags::NO_SQARRAY;
        parameters.sq_thread_idle = (options.idle.as_millis() as u32).max(1);
        if let Some(processor) = options.processor {
            parameters.flags |= IoringSetupFlags::SQ_AFF;
            parameters.sq_thread_cpu = processor;
        }
        parameters.sq_off.user_addr = io_uring_ptr::new(memory.entries().cast());
        parameters.cq_off.user_addr = io_uring_ptr::new(memory.rings().cast());
        // SAFETY: both addresses have room for what was asked for, as `Memory` has it, and stay mapped for
        // as long as the ring is there.
        let ring = unsafe { io_uring_setup(abi::BPFDB_TABLE_ENTRIES, &mut parameters) };
        let ring = ring.map_err(system("make an io_uring"))?;
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let doorbell = doorbell.map_err(system("make an eventfd"))?;
        register(&ring, memory, &file)?;
        let mut hello = [0; 8];
        rustix::rand::getrandom(&mut hello, rustix::rand::GetRandomFlags::empty())
            .map_err(system("get a random number"))?;
        let about = table.about();
        memory.set_shape(bpfdb_table_shape {
            id: about.id,
            root: about.root,
            leaves: about.leaves,
            depth: about.depth,
            block_size: about.block_size,
            buffers: memory.buffers().expose_provenance() as u64,
            states: memory.chain(0).expose_provenance() as u64,
            hello: u64::from_le_bytes(hello) | HELLO,
            doorbell: doorbell.as_raw_fd() as u32,
            sq_head: parameters.sq_off.head,
            sq_tail: parameters.sq_off.tail,
            cq_head: parameters.cq_off.head,
            cq_tail: parameters.cq_off.tail,
            pad: 0,
        });
        let ring = Self {
            _ring: ring,
            doorbell,
            _file: file,
        };
        ring.poll(
            memory,
            u64::from_le_bytes(hello) | HELLO,
            parameters.sq_off.tail,
        );
        Ok(ring)
    }

    /// Puts the doorbell's poll into the submission queue. From then on only the program writes there.
    fn poll(&self, memory: &Memory, hello: u64, tail: u32) {
        let poll = [
            POLL_ADD | (self.doorbell.as_raw_fd() as u64) << 32,
            0,
            0,
            POLL_MULTI | POLL_IN,
            hello,
            0,
            0,
            0,
        ];
        // SAFETY: the first place, of as many words; the kernel reads it when the tail has moved.
        unsafe { ptr::copy_nonoverlapping(poll.as_ptr(), memory.entries(), poll.len()) };
        memory.ring_word(tail).store(1, Ordering::Release);
    }

    /// Has io_uring's thread look at what stands in the queue.
    pub(crate) fn begin(&self) -> Result<()> {
        // SAFETY: wakes a thread; the ring's entries refer to memory that outlives the ring.
        let entered =
            unsafe { io_uring_enter(self._ring.as_fd(), 0, 0, IoringEnterFlags::SQ_WAKEUP) };
        entered.map(drop).map_err(system("start the io_uring"))
    }

    /// The program looks for chains that are READY.
    pub(crate) fn knock(&self) -> Result<()> {
        let written = rustix::io::write(&self.doorbell, &1u64.to_ne_bytes());
        written.map(drop).map_err(system("ring the doorbell"))
    }
}

/// Buffers and table need not be looked up for each read then.
fn register(ring: &OwnedFd, memory: &Memory, file: &File) -> Result<()> {
    let buffers = libc::iovec {
        iov_base: memory.buffers().cast(),
        iov_len: abi::BPFDB_TABLE_BUFFERS as usize,
    };
    let file = file.as_raw_fd();
    // SAFETY: the buffers are mapped for as long as the ring is there, and no Rust reference to one lives while
    // a read may write to it.
    let registered = unsafe {
        io_uring_register(
            ring.as_fd(),
            IoringRegisterOp::RegisterBuffers,
            (&raw const buffers).cast(),
            1,
        )
    };
    registered.map_err(system("register buffers"))?;
    // SAFETY: one descriptor.
    let registered = unsafe {
        io_uring_register(
            ring.as_fd(),
            IoringRegisterOp::RegisterFiles,
            (&raw const file).cast(),
            1,
        )
    };
    registered.map(drop).map_err(system("register the table"))
}
