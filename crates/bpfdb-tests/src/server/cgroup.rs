//! A cgroup of the test's own: what a server attaches for local clients is seen
//! by nobody else.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{fs, io};

use bpfdb_server::settings::LocalClients;

/// `on`: servers answer clients in their own send() also in tests that do not
/// care.
const VARIABLE: &str = "BPFDB_TEST_LOCAL_CLIENTS";
const PREFIX: &str = "bpfdb-test-";

static OWN: OnceLock<PathBuf> = OnceLock::new();

/// For tests that work either way.
pub fn chosen() -> LocalClients {
    match std::env::var(VARIABLE).as_deref() {
        Ok("on") => LocalClients::In(own()),
        _ => LocalClients::Off,
    }
}

/// A cgroup in which this process is from now on. It goes when the process ends;
/// what a killed one left goes now.
pub fn own() -> PathBuf {
    OWN.get_or_init(|| {
        let parent = current();
        remove_left_over(&parent);
        let own = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&own).expect("a cgroup");
        enter(&own);
        // SAFETY: a function without preconditions.
        unsafe { libc::atexit(leave) };
        own
    })
    .clone()
}

/// What `command` starts is in the cgroup of [`own`], if this process is. Without this it could be in
/// that of a server that is being made, which moves this process for a moment; and the server could
/// not remove it at its end.
pub fn keep(command: &mut Command) {
    let Some(own) = OWN.get() else { return };
    let file = own.join("cgroup.procs").into_os_string().into_vec();
    let file = CString::new(file).expect("a path");
    let enter = move || {
        // SAFETY: the path ends with a zero; the number of bytes is that of the text.
        let is_written = unsafe {
            let fd = libc::open(file.as_ptr(), libc::O_WRONLY);
            let written = libc::write(fd, c"0".as_ptr().cast(), 1);
            libc::close(fd);
            written == 1
        };
        match is_written {
            true => Ok(()),
            false => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(enter) };
}

extern "C" fn leave() {
    let own = current();
    if let Some(parent) = own.parent()
        && is_ours(&own, std::process::id())
    {
        enter(parent);
        let _ = fs::remove_dir(own);
    }
}

fn is_ours(path: &Path, pid: u32) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy() == format!("{PREFIX}{pid}"))
}

fn enter(path: &Path) {
    let pid = std::process::id().to_string();
    fs::write(path.join("cgroup.procs"), pid).expect("the cgroup entered");
}

fn current() -> PathBuf {
    let mount = bpfdb::mounts::cgroup2()
        .expect("a mount table")
        .expect("cgroup v2");
    let table = fs::read_to_string("/proc/self/cgroup").expect("the own cgroup");
    let own = table.lines().find_map(|line| line.strip_prefix("0::/"));
    mount.join(own.unwrap_or_default())
}

fn remove_left_over(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let own = std::process::id().to_string();
        let dead = name
            .strip_prefix(PREFIX)
            .is_some_and(|pid| pid == own || !Path::new("/proc").join(pid).exists());
        if dead {
            for inner in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                let _ = fs::remove_dir(inner.path());
            }
            let _ = fs::remove_dir(entry.path());
        }
    }
}
