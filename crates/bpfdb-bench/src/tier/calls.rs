//! System calls of this thread, counted by the kernel (perf).

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result};

/// Names the tracepoint.
const TRACEPOINT: &str = "events/raw_syscalls/sys_enter/id";
const TRACING: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// `PERF_TYPE_TRACEPOINT`.
const TYPE_TRACEPOINT: u32 = 2;

/// The beginning of `struct perf_event_attr`, as its first version has it: what counts is there.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// Counts from when it is made on.
#[derive(Debug)]
pub(super) struct Calls(OwnedFd);

impl Calls {
    /// `None`: the file system of tracepoints is not mounted here.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn count() -> Result<Option<Self>> {
        let path = TRACING.map(|folder| Path::new(folder).join(TRACEPOINT));
        let Some(id) = path.iter().find_map(|path| fs::read_to_string(path).ok()) else {
            return Ok(None);
        };
        let attributes = Attributes {
            kind: TYPE_TRACEPOINT,
            size: size_of::<Attributes>() as u32,
            config: id.trim().parse()?,
            ..Attributes::default()
        };
        // SAFETY: attributes of their size; this thread, any processor, no group, no flags.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                0,
                -1,
                -1,
                0u64,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error()).context("count system calls");
        }
        // SAFETY: a descriptor that was just made.
        Ok(Some(Self(unsafe { OwnedFd::from_raw_fd(fd as i32) })))
    }

    /// So far.
    pub(super) fn read(&self) -> Result<u64> {
        let mut count = [0u8; 8];
        // SAFETY: a buffer of its length.
        let read =
            unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        anyhow::ensure!(read == 8, "the count of system calls cannot be read");
        Ok(u64::from_ne_bytes(count))
    }
}
