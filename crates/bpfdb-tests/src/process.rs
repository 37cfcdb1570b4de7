//! Processes that a test starts, and tests that need a process of their own.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

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
    crate::server::cgroup::keep(command);
    // SAFETY: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(kill) }
}

/// The path of this program, to start it again in another role. Not `current_exe()`, which names
/// no file in the layered file system of the virtual machine of `make vm`.
pub fn this_program() -> OsString {
    env::args_os().next().expect("this program")
}

/// Names the test that the process is for, in the environment of that process.
const ALONE: &str = "BPFDB_TEST_ALONE";

/// Does the work of a test in a process that has no other test: for a test that changes or counts
/// something of its process, for example limits, open files or allocated bytes.
///
/// `name` is the test's own path in its program, without the name of the crate: `module::test`. This
/// process starts itself again with that test only, and fails as the other process fails. The tests of
/// the other process share no static with those of this one.
#[track_caller]
pub fn alone_in_a_process(name: &str, work: impl FnOnce()) {
    if env::var_os(ALONE).is_some_and(|of| of == name) {
        return work();
    }
    let mut command = Command::new(this_program());
    command
        .args(["--exact", name, "--include-ignored", "--nocapture"])
        .env(ALONE, name)
        .stdin(Stdio::null());
    let output = dies_with_us(&mut command).output();
    let output = output.expect("this program starts again");
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    // A name that is no test's would succeed with nothing run.
    let is_run = told.contains("test result: ok. 1 passed");
    assert!(output.status.success() && is_run, "{name}: {told}{errors}");
}
