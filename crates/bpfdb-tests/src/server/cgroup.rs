//! A cgroup of the test's own: what a server attaches for local clients is seen
//! by nobody else.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bpfdb_server::settings::LocalClients;

/// `on`: servers answer clients in their own send() also in tests that do not
/// care.
const VARIABLE: &str = "BPFDB_TEST_LOCAL_CLIENTS";
const PREFIX: &str = "bpfdb-test-";

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
    static OWN: OnceLock<PathBuf> = OnceLock::new();
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
