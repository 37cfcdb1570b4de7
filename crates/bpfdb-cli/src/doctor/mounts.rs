//! File systems: cgroup v2 for attaching, bpffs for pinning.

use std::path::Path;

use bpfdb::mounts::{self, Mount};
use nix::unistd::{AccessFlags, access};

use super::Check;

const BPFFS: &str = "/sys/fs/bpf";

pub(super) fn checks() -> Vec<Check> {
    let table = mounts::mounts().unwrap_or_default();
    vec![cgroup2(&table), bpffs(&table, Path::new(BPFFS).is_dir())]
}

fn cgroup2(table: &[Mount]) -> Check {
    match mounts::find(table, "cgroup2") {
        Some(point) => Check::ok("cgroup v2", point.display().to_string()),
        None => Check::missing(
            "cgroup v2",
            "not mounted",
            "run: mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified",
        ),
    }
}

fn bpffs(table: &[Mount], mountable: bool) -> Check {
    match mounts::find(table, "bpf") {
        Some(point) => usable(&point),
        None if mountable => Check::note(
            "BPF file system",
            "not mounted",
            format!("bpfdb mounts it, or run: mount -t bpf bpf {BPFFS}"),
        ),
        None => Check::missing(
            "BPF file system",
            format!("no {BPFFS}"),
            "mount sysfs on /sys, and boot a kernel with CONFIG_BPF_SYSCALL",
        ),
    }
}

/// A server makes folders in the folder `bpfdb` of the file system.
fn usable(point: &Path) -> Check {
    let name = "BPF file system";
    let folder = point.join("bpfdb");
    let place = if folder.exists() { &folder } else { point };
    let rights = AccessFlags::W_OK | AccessFlags::X_OK;
    match access(place, rights) {
        Ok(()) => Check::ok(name, point.display().to_string()),
        Err(error) => Check::missing(
            name,
            format!("cannot write to {}: {error}", place.display()),
            format!(
                "run as root, or let root run: chmod 0711 {}; install -d -m 0700 -o USER {}",
                point.display(),
                folder.display()
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn mounts_are_found_or_asked_for() {
        let table = mounts::parse("41 31 0:38 / /cg rw - cgroup2 cgroup2 rw\n");
        assert_eq!(cgroup2(&table).found, "/cg");
        assert_eq!(cgroup2(&[]).state, State::Missing);
        assert_eq!(bpffs(&table, true).state, State::Note);
        assert_eq!(bpffs(&table, false).state, State::Missing);
    }
}
