//! What `maxmemory` means, and what a server needs besides.
//!
//! ```text
//! machine: half of it may be data by default
//! control group, if one limits:
//!   limit = base (programs, process, rings of the log, connections)
//!         + 3/4 of the rest: data
//!         + 1/4 of the rest: requests and replies in the process, caches, copies
//! ```
//!
//! The kernel kills a process whose control group is full. So the limit of the group bounds data and
//! requests, whatever the settings ask for: clients get errors before the kernel acts.

use bpfdb::memory_cgroups;

use super::{Settings, Size};

/// An engine has at least two segments.
const LEAST: u64 = 2 * bpfdb::SEGMENT_SIZE;
/// And not more than its addresses can name.
const MOST: u64 = bpfdb::abi::BPFDB_SEGMENTS_MAX as u64 * bpfdb::SEGMENT_SIZE;
/// Bytes of each ring of the log: what writers may be ahead of the disk, for each processor.
pub const LOG_RING: u32 = 16 << 20;
/// Programs of the engine and of the server with their maps, while they are loaded too, buffers of
/// the log and of checkpoints, and the process itself: 55 MiB were measured.
const FIXED: u64 = 64 << 20;
/// Maps of a connection and what the process keeps for it, without a socket.
const CONNECTION: u64 = 4 << 10;

// The help of the setting says so.
const _: () = assert!(MOST == 64 << 30);

/// Is it less than an engine needs? CONFIG SET takes it; a server does not start with it.
pub(crate) fn is_too_little(setting: Size) -> bool {
    setting != Size(0) && setting.bytes() < LEAST
}

/// The least that an engine has.
pub(crate) fn least() -> Size {
    Size(LEAST)
}

/// Most memory for data and index with these settings, bytes; or why `maxmemory` is refused.
pub fn memory_limit(settings: &Settings) -> Result<u64, String> {
    let setting = settings.max_memory;
    match setting {
        Size(0) => Ok(default_of(machine_memory()?, of_group(settings)?)),
        Size(bytes) if bytes < LEAST => Err(format!(
            "maxmemory is {setting}, must be at least {}, or 0 for half of the machine's",
            Size(LEAST)
        )),
        Size(bytes) if bytes > MOST => Err(format!(
            "maxmemory is {setting}, must be at most {}: an engine can name no more",
            Size(MOST)
        )),
        Size(bytes) => Ok(bytes),
    }
}

/// Memory above which values go to files, bytes, where data may take `limit`.
pub fn tier_memory(settings: &Settings, limit: u64) -> u64 {
    match settings.tier_memory {
        Size(0) => limit / 2,
        Size(bytes) => bytes.min(limit / 8 * 7),
    }
}

/// Most that CONFIG SET may make of it, bytes: what the machine has, or what its control group leaves
/// to the server.
pub fn memory_limit_max(settings: &Settings) -> Result<u64, String> {
    Ok(all_of(machine_memory()?, of_group(settings)?))
}

/// Most memory for data and index that the control group leaves, bytes. `None`: no group limits.
pub fn of_group(settings: &Settings) -> Result<Option<u64>, String> {
    let base = base(settings)?;
    Ok(memory_cgroups::limit().map(|limit| data_in(limit, base)))
}

/// Most memory for requests and replies of all clients that the control group leaves, bytes.
pub fn clients_of_group(settings: &Settings) -> Result<Option<u64>, String> {
    let base = base(settings)?;
    Ok(memory_cgroups::limit().map(|limit| limit.saturating_sub(base) / 4))
}

/// Memory that a server needs before it has data, bytes.
pub fn base(settings: &Settings) -> Result<u64, String> {
    let rings = match settings.dir {
        None => 0,
        Some(_) => bpfdb::log_rings().map_err(|error| error.to_string())?,
    };
    let connections = u64::from(settings.max_clients) * CONNECTION;
    Ok(FIXED + u64::from(rings) * u64::from(LOG_RING) + connections)
}

/// The least memory with which a server begins, bytes.
pub fn least_of_server(settings: &Settings) -> Result<u64, String> {
    Ok(base(settings)? + LEAST)
}

/// An engine is never smaller than the least, not even in a group that has no room for that: the
/// engine of an earlier server may be there already.
fn data_in(limit: u64, base: u64) -> u64 {
    (limit.saturating_sub(base) / 4 * 3).max(LEAST)
}

fn default_of(machine: u64, group: Option<u64>) -> u64 {
    (machine / 2).min(group.unwrap_or(MOST)).min(MOST)
}

fn all_of(machine: u64, group: Option<u64>) -> u64 {
    machine.min(group.unwrap_or(MOST)).min(MOST)
}

/// Memory of this machine, bytes.
fn machine_memory() -> Result<u64, String> {
    nix::sys::sysinfo::sysinfo()
        .map(|info| info.ram_total())
        .map_err(|error| format!("cannot ask for the machine's memory: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_machine_has_more_than_an_engine() {
        let both = |machine| (default_of(machine, None), all_of(machine, None));
        assert_eq!(both(8 << 30), (4 << 30, 8 << 30));
        for machine in [MOST + 1, 2 * MOST + 2, u64::MAX] {
            let (half, all) = both(machine);
            assert!(half <= MOST && all == MOST);
        }
        let with = |max_memory| Settings {
            max_memory,
            ..Settings::default()
        };
        assert_eq!(memory_limit(&with(Size(MOST))), Ok(MOST));
        let refused = memory_limit(&with(Size(MOST + 1))).expect_err("too much");
        assert!(refused.contains("at most 64.0 GiB"), "{refused}");
    }

    #[test]
    fn a_control_group_bounds_the_default_and_what_may_be_set() {
        let data = data_in(512 << 20, 112 << 20);
        assert_eq!(data, 300 << 20);
        assert_eq!(default_of(24 << 30, Some(data)), data);
        assert_eq!(all_of(24 << 30, Some(data)), data);
        // A machine that is smaller than the group.
        assert_eq!(default_of(400 << 20, Some(data)), 200 << 20);
        assert_eq!(data_in(64 << 20, 112 << 20), LEAST);
    }

    #[test]
    fn connections_and_the_log_are_part_of_the_base() {
        let few = Settings {
            max_clients: 0,
            dir: None,
            ..Settings::default()
        };
        let many = Settings {
            max_clients: 10_000,
            ..few.clone()
        };
        let logged = Settings {
            dir: Some("/d".into()),
            ..few.clone()
        };
        let base = |settings: &Settings| base(settings).expect("known");
        assert_eq!(base(&few), FIXED);
        assert_eq!(base(&many), FIXED + 10_000 * CONNECTION);
        assert!(base(&logged) >= FIXED + u64::from(LOG_RING));
    }
}
