//! Processes that a test starts.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What it starts is killed when the thread that started it ends, also if that
/// is because this process was killed.
pub fn dies_with_us(command: &mut Command) -> &mut Command {
    let kill = || {
        // SAFETY: a system call without pointers.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(kill) }
}

/// The path of this program, to start it again in another role. Not `current_exe()`, which names
/// no file in the layered file system of the virtual machine of `make vm`.
pub fn this_program() -> OsString {
    env::args_os().next().expect("this program")
}
