//! Memory: what the machine, the control groups and the process limits leave.
//! Maps are charged to the control group that creates them ([`bpfdb::memory_cgroups`]), and not to
//! RLIMIT_MEMLOCK.

use std::fs;

use bpfdb::memory_cgroups;
use bpfdb_server::settings::{Settings, Size};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use super::Check;

pub(super) fn checks(wanted: u64) -> Vec<Check> {
    let [machine, control_group] = rooms(wanted, 0);
    vec![machine, control_group, locked(), open_files()]
}

/// Whether machine and control groups have room for `wanted` bytes, `freed` of which are in use and
/// become free before.
pub(super) fn rooms(wanted: u64, freed: u64) -> [Check; 2] {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let with_freed = |bytes: u64| bytes.saturating_add(freed);
    [
        machine(parse_available(&meminfo).map(with_freed), wanted),
        control_group(memory_cgroups::room().map(with_freed), wanted),
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
            "raise memory.max of the control group, or lower --maxmemory and --maxclients",
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

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

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
}
