//! A control group with a limit of memory for processes that a test starts.
//!
//! It is below the group of the test with cgroup v1. With v2 only groups without processes, and the
//! root, may have groups below them with a limit: it is below the nearest one that can.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use bpfdb::mounts;

/// Removed when it is dropped; its processes are gone by then.
pub struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// A new group whose processes, and what the kernel keeps for them, may have so many bytes.
    pub fn limited(bytes: u64) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("bpfdb-test-memory-{}-{number}", std::process::id());
        let (parent, limit) = parent();
        let group = Self(parent.join(name));
        fs::create_dir(&group.0).expect("a cgroup");
        fs::write(group.0.join(limit), bytes.to_string()).expect("a limit");
        group
    }

    /// A command that runs `program` in the group.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        let enter = r#"echo 0 > "$0/cgroup.procs" && exec "$@""#;
        command.args(["-c", enter]).arg(&self.0).arg(program);
        command
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel lets a process go a moment after it was waited for.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Where the group can be, and its file with the limit.
fn parent() -> (PathBuf, &'static str) {
    let table = mounts::mounts().expect("a mount table");
    let membership = fs::read_to_string("/proc/self/cgroup").expect("the own cgroups");
    let v1 = table.iter().find(|mount| {
        mount.file_system == "cgroup" && mount.options.split(',').any(|name| name == "memory")
    });
    let own = |names: &str| {
        let mut groups = membership.lines().filter_map(|line| line.split_once(':'));
        let path = groups.find_map(|(_, rest)| {
            let (found, path) = rest.split_once(':')?;
            (found.split(',').any(|name| name == names)).then_some(path)
        });
        path.expect("a group").trim_start_matches('/').to_owned()
    };
    if let Some(mount) = v1 {
        return (mount.point.join(own("memory")), "memory.limit_in_bytes");
    }
    let root = mounts::find(&table, "cgroup2").expect("cgroup v2");
    let folder = root.join(own(""));
    let groups = folder
        .ancestors()
        .take_while(|group| group.starts_with(&root));
    let parent = groups.map(Path::to_owned).find(|group| has_memory(group));
    (parent.expect("a group with limits of memory"), "memory.max")
}

fn has_memory(group: &Path) -> bool {
    let control = group.join("cgroup.subtree_control");
    let names = fs::read_to_string(&control).unwrap_or_default();
    names.split_whitespace().any(|name| name == "memory") || fs::write(control, "+memory").is_ok()
}
