//! Memory that the control groups of this process leave to it.
//!
//! Since Linux 5.11 the kernel charges a BPF map to the control group of the process that creates
//! it, and keeps the charge until the map is gone: the maps of an engine outlive a process that was
//! killed. A charge beyond the limit of a group makes the kernel kill a process of that group. A
//! process is under a group and all groups above it, of cgroup v2, of v1, or of both; the tightest
//! one counts.

use std::fs;
use std::path::{Path, PathBuf};

use crate::mounts::{self, Mount};

/// The least limit of the control groups of this process, bytes. `None`: there is none.
pub fn limit() -> Option<u64> {
    controllers().iter().flat_map(Controller::limits).min()
}

/// The bytes that may still be charged before a limit is reached. Cached file contents count as
/// free, because the kernel gives them up before it kills a process. `None`: there is no limit.
pub fn room() -> Option<u64> {
    controllers().iter().flat_map(Controller::rooms).min()
}

/// Files of one version of the memory controller.
struct Controller {
    /// The group of the process, and the root of the hierarchy as it is mounted.
    folder: PathBuf,
    mount: PathBuf,
    files: &'static Files,
}

struct Files {
    limit: &'static str,
    usage: &'static str,
    /// Lines of `memory.stat`, for the group with all groups below it.
    cache: [&'static str; 2],
}

const V1: Files = Files {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cache: ["total_inactive_file ", "total_active_file "],
};
const V2: Files = Files {
    limit: "memory.max",
    usage: "memory.current",
    cache: ["inactive_file ", "active_file "],
};

impl Controller {
    /// From the group of the process up to the root. In a container the path of the group may be
    /// one that is not mounted; then the root is the group.
    fn groups(&self) -> impl Iterator<Item = &Path> {
        let ancestors = self.folder.ancestors();
        ancestors.take_while(|folder| folder.starts_with(&self.mount))
    }

    fn limits(&self) -> impl Iterator<Item = u64> {
        self.groups().filter_map(|group| self.limit_of(group))
    }

    fn rooms(&self) -> impl Iterator<Item = u64> {
        self.groups().filter_map(|group| {
            let limit = self.limit_of(group)?;
            let usage = number(&group.join(self.files.usage)).unwrap_or(0);
            let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
            let cache = cached(&stat, self.files);
            Some(limit.saturating_sub(usage.saturating_sub(cache)))
        })
    }

    fn limit_of(&self, group: &Path) -> Option<u64> {
        parse_limit(&fs::read_to_string(group.join(self.files.limit)).ok()?)
    }
}

fn controllers() -> Vec<Controller> {
    let table = mounts::mounts().unwrap_or_default();
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    controllers_of(&table, &membership)
}

fn controllers_of(table: &[Mount], membership: &str) -> Vec<Controller> {
    let lines = membership.lines();
    lines.filter_map(|line| controller(table, line)).collect()
}

/// `id:controllers:path`; the controllers of v2 are empty.
fn controller(table: &[Mount], line: &str) -> Option<Controller> {
    let (_, rest) = line.split_once(':')?;
    let (names, path) = rest.split_once(':')?;
    let (mount, files) = if names.is_empty() {
        (mounts::find(table, "cgroup2")?, &V2)
    } else if names.split(',').any(|name| name == "memory") {
        let is_memory = |mount: &&Mount| {
            mount.file_system == "cgroup" && mount.options.split(',').any(|o| o == "memory")
        };
        (table.iter().find(is_memory)?.point.clone(), &V1)
    } else {
        return None;
    };
    let folder = mount.join(path.trim_start_matches('/'));
    Some(Controller {
        folder,
        mount,
        files,
    })
}

/// Bytes of cached files in a `memory.stat`.
fn cached(stat: &str, files: &Files) -> u64 {
    let value = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.parse::<u64>().ok())
    };
    files.cache.iter().filter_map(|name| value(name)).sum()
}

/// `max`, and the near-maximum that v1 writes, mean that there is none.
fn parse_limit(text: &str) -> Option<u64> {
    let limit = text.trim().parse().ok()?;
    (limit < 1 << 62).then_some(limit)
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory
41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn both_versions_of_the_controller_are_found() {
        let membership = "4:cpu,memory:/a/b\n2:cpuset:/\n0::/c\n";
        let found = controllers_of(&mounts::parse(TABLE), membership);
        let folders: Vec<_> = found.iter().map(|c| c.folder.to_str().unwrap()).collect();
        assert_eq!(folders, ["/cg/memory/a/b", "/cg/unified/c"]);
    }

    #[test]
    fn limits_are_read() {
        assert_eq!(parse_limit("max\n"), None);
        assert_eq!(parse_limit("9223372036854771712\n"), None);
        assert_eq!(parse_limit("1073741824\n"), Some(1 << 30));
    }

    /// The group itself limits nothing, the one above it does, and half of its use is cache.
    #[test]
    fn the_tightest_group_counts_and_its_cache_is_free() {
        let root = tempfile::tempdir().expect("a folder");
        let (above, own) = (root.path().join("a"), root.path().join("a/b"));
        fs::create_dir_all(&own).expect("made");
        let write = |folder: &Path, name: &str, text: &str| {
            fs::write(folder.join(name), text).expect("written");
        };
        write(&own, "memory.max", "max\n");
        write(&above, "memory.max", "1000\n");
        write(&above, "memory.current", "600\n");
        let stat = "anon 1\ninactive_file 100\nactive_file 200\nworkingset_activate_file 7\n";
        write(&above, "memory.stat", stat);
        for folder in [own, above.join("not mounted here")] {
            let controller = Controller {
                folder,
                mount: root.path().to_owned(),
                files: &V2,
            };
            assert_eq!(controller.limits().min(), Some(1000));
            assert_eq!(controller.rooms().min(), Some(700));
        }
    }
}
