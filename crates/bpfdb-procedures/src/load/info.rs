//! What the kernel says of a program.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::error::{Error, Result};

pub(super) fn info(fd: BorrowedFd<'_>) -> Result<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `len` bytes into `info`.
    let error = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd.as_raw_fd(), &mut info, &mut len) };
    if error < 0 {
        return Err(Error::System {
            what: "look at the program",
            error: io::Error::from_raw_os_error(-error),
        });
    }
    Ok(info)
}
