//! Memory: what the machine, the control groups and the process limits leave.
//! Since Linux 5.11 maps are charged to the control group that creates them,
//! and not to RLIMIT_MEMLOCK.

use std::fs;
use std::path::{Path, PathBuf};

use bpfdb::mounts::{self, Mount};
use bpfdb_server::settings::{Settings, Size};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use super::Check;

pub(super) fn checks(wanted: u64) -> Vec<Check> {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    vec![
        machine(parse_available(&meminfo), wanted),
        control_group(control_group_room(), wanted),
        locked(),
        open_files(),
    ]
}

/// Each connection is a file, and the daemon raises its limit to the hard one.
fn open_files() -> Check {
    const OWN: u64 = 100;
    let name = "open files limit";
    let wanted = u64::from(Settings::default().max_clients) + OWN;
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((_, RLIM_INFINITY)) => Check::ok(name, "unlimited"),
        Ok((_, hard)) if hard >= wanted => Check::ok(name, hard.to_string()),
        Ok((_, hard)) => Check::note(
            name,
            format!("{hard}, {wanted} wanted"),
            "raise the hard limit (ulimit -Hn), or give the server a lower --maxclients",
        ),
        Err(error) => Check::note(name, error.to_string(), "check it by hand: ulimit -Hn"),
    }
}

fn machine(available: Option<u64>, wanted: u64) -> Check {
    let name = "memory";
    let wanted_text = Size(wanted);
    match available {
        Some(bytes) if bytes >= wanted => Check::ok(
            name,
            format!("{} available, {wanted_text} wanted", Size(bytes)),
        ),
        Some(bytes) => Check::missing(
            name,
            format!("{} available, {wanted_text} wanted", Size(bytes)),
            "free memory, or give the engine a lower limit with --maxmemory",
        ),
        None => Check::note(
            name,
            "not known",
            "check it by hand: /proc/meminfo has no answer",
        ),
    }
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn control_group(room: Option<u64>, wanted: u64) -> Check {
    let name = "control group limit";
    match room {
        None => Check::ok(name, "none"),
        Some(room) if room >= wanted => Check::ok(name, format!("leaves {}", Size(room))),
        Some(room) => Check::missing(
            name,
            format!("leaves {} of the {} wanted", Size(room), Size(wanted)),
            "raise memory.max of the control group, or give the engine a lower limit with --maxmemory",
        ),
    }
}

fn locked() -> Check {
    let found = match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((RLIM_INFINITY, _)) => "unlimited".into(),
        Ok((soft, _)) => format!("{}; does not apply to maps", Size(soft)),
        Err(error) => error.to_string(),
    };
    Check::ok("locked memory limit", found)
}

// ---- Control groups --------------------------------------------------------

/// Files of one version of the memory controller.
struct Controller {
    folder: PathBuf,
    mount: PathBuf,
    limit: &'static str,
    usage: &'static str,
}

/// What the tightest control group above this process leaves, if any limits.
fn control_group_room() -> Option<u64> {
    let table = mounts::mounts().ok()?;
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    controllers(&table, &membership)
        .iter()
        .filter_map(room)
        .min()
}

/// The controllers that this process is under: of cgroup v2, of v1, or both.
fn controllers(table: &[Mount], membership: &str) -> Vec<Controller> {
    membership
        .lines()
        .filter_map(|line| controller(table, line))
        .collect()
}

/// `id:controllers:path`; the controllers of v2 are empty.
fn controller(table: &[Mount], line: &str) -> Option<Controller> {
    let (_, rest) = line.split_once(':')?;
    let (names, path) = rest.split_once(':')?;
    let (mount, limit, usage) = if names.is_empty() {
        (
            mounts::find(table, "cgroup2")?,
            "memory.max",
            "memory.current",
        )
    } else if names.split(',').any(|name| name == "memory") {
        let is_memory = |mount: &&Mount| {
            mount.file_system == "cgroup" && mount.options.split(',').any(|o| o == "memory")
        };
        let point = table.iter().find(is_memory)?.point.clone();
        (point, "memory.limit_in_bytes", "memory.usage_in_bytes")
    } else {
        return None;
    };
    let folder = mount.join(path.trim_start_matches('/'));
    Some(Controller {
        folder,
        mount,
        limit,
        usage,
    })
}

/// Limit minus use, at the tightest place between the process and the root.
fn room(controller: &Controller) -> Option<u64> {
    controller
        .folder
        .ancestors()
        .take_while(|folder| folder.starts_with(&controller.mount))
        .filter_map(|folder| {
            let limit = limit(&fs::read_to_string(folder.join(controller.limit)).ok()?)?;
            Some(limit.saturating_sub(number(&folder.join(controller.usage)).unwrap_or(0)))
        })
        .min()
}

/// `max`, and the near-maximum that v1 writes, mean that there is none.
fn limit(text: &str) -> Option<u64> {
    let limit = text.trim().parse().ok()?;
    (limit < 1 << 62).then_some(limit)
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    const TABLE: &str = "\
35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory
41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn available_memory_is_read() {
        let meminfo = "MemTotal:       24684092 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(parse_available(meminfo), Some(2 << 20));
        assert_eq!(parse_available("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn too_little_memory_is_missing() {
        assert_eq!(machine(Some(1 << 30), 1 << 30).state, State::Ok);
        assert_eq!(machine(Some(1 << 20), 1 << 30).state, State::Missing);
        assert_eq!(control_group(None, 1 << 40).state, State::Ok);
        assert_eq!(control_group(Some(1 << 20), 1 << 30).state, State::Missing);
    }

    #[test]
    fn both_versions_of_the_controller_are_found() {
        let found = controllers(
            &mounts::parse(TABLE),
            "4:cpu,memory:/a/b\n2:cpuset:/\n0::/c\n",
        );
        let folders: Vec<_> = found.iter().map(|c| c.folder.to_str().unwrap()).collect();
        assert_eq!(folders, ["/cg/memory/a/b", "/cg/unified/c"]);
    }

    #[test]
    fn limits_are_read() {
        assert_eq!(limit("max\n"), None);
        assert_eq!(limit("9223372036854771712\n"), None);
        assert_eq!(limit("1073741824\n"), Some(1 << 30));
    }
}
