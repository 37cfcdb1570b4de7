//! What `maxmemory` means.

use super::Size;

/// An engine has at least two segments.
const LEAST: u64 = 2 * bpfdb::SEGMENT_SIZE;
/// And not more than its addresses can name.
const MOST: u64 = bpfdb::abi::BPFDB_SEGMENTS_MAX as u64 * bpfdb::SEGMENT_SIZE;

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

/// Most memory for data and index, bytes; or why the setting is refused.
pub fn memory_limit(setting: Size) -> Result<u64, String> {
    match setting {
        Size(0) => Ok(half_of(machine_memory()?)),
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

/// Most that CONFIG SET may make of it on this machine, bytes.
pub fn memory_limit_max() -> Result<u64, String> {
    machine_memory().map(all_of)
}

fn half_of(machine: u64) -> u64 {
    (machine / 2).min(MOST)
}

fn all_of(machine: u64) -> u64 {
    machine.min(MOST)
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
        assert_eq!((half_of(8 << 30), all_of(8 << 30)), (4 << 30, 8 << 30));
        for machine in [MOST + 1, 2 * MOST + 2, u64::MAX] {
            assert!(half_of(machine) <= MOST && all_of(machine) == MOST);
        }
        assert_eq!(memory_limit(Size(MOST)), Ok(MOST));
        let refused = memory_limit(Size(MOST + 1)).expect_err("too much");
        assert!(refused.contains("at most 64.0 GiB"), "{refused}");
    }
}
