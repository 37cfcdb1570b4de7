//! What `maxmemory` means.

use super::Size;

/// An engine has at least two segments.
const LEAST: u64 = 2 * bpfdb::SEGMENT_SIZE;

/// Most memory for data and index, bytes; or why the setting is refused.
pub fn memory_limit(setting: Size) -> Result<u64, String> {
    match setting {
        Size(0) => Ok(machine_memory()? / 2),
        Size(bytes) if bytes < LEAST => Err(format!(
            "maxmemory is {setting}, must be at least {}, or 0 for half of the machine's",
            Size(LEAST)
        )),
        Size(bytes) => Ok(bytes),
    }
}

/// Memory of this machine, bytes.
pub fn machine_memory() -> Result<u64, String> {
    nix::sys::sysinfo::sysinfo()
        .map(|info| info.ram_total())
        .map_err(|error| format!("cannot ask for the machine's memory: {error}"))
}
