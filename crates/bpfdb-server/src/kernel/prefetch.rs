//! The programs that have cold values read before the daemon asks for them (`bpf/redis/prefetch.bpf.h` is the other
//! side). They are loaded at the start of a server with cold values, after the ring is there that they write to.

use std::os::fd::{AsFd, AsRawFd};

use bpfdb::LaterProgram;
use bpfdb_tier::{PREFETCHES, PrefetchMaps, Tier};
use libbpf_rs::{MapCore, MapFlags};

use super::apart::open_sharing;
use super::programs::Programs;
use super::redis;
use crate::error::{Error, Result, bpf, system};

const MEMORY: &str = ".bss.prefetch";
const READS: &str = "prefetches";
const BELL: &str = "prefetch_bell";
/// Each program, and the map that has it as its only entry.
const PLACES: [(&str, &str); 2] = [
    (redis::PREFETCH, "prefetcher"),
    (redis::PREFETCH_SEGMENT, "segment_prefetcher"),
];

/// Has the kernel begin reads of cold values for as long as these programs are there. If it cannot, the daemon
/// reads all of them, and this is logged.
pub(crate) fn start(programs: &Programs, tier: &Tier) {
    if let Err(error) = try_start(programs, tier) {
        tracing::warn!(%error, "the daemon reads cold values when it needs them: the kernel cannot begin before");
    }
}

fn try_start(programs: &Programs, tier: &Tier) -> Result<()> {
    let reads = programs.map(READS)?;
    if reads.max_entries() < PREFETCHES {
        return Err(Error::Unsupported(
            "the programs were loaded for a server without cold values".into(),
        ));
    }
    let (memory, bell) = (programs.map(MEMORY)?, programs.map(BELL)?);
    let maps = PrefetchMaps {
        memory: memory.as_fd(),
        reads: reads.as_fd(),
        bell: bell.as_fd(),
    };
    tier.prefetch(&maps).map_err(system("make an io_uring"))?;
    PLACES
        .iter()
        .try_for_each(|(name, place)| put(programs, name, place))
}

/// Loads a program, and puts it into its place, which keeps it.
fn put(programs: &Programs, name: &str, place: &str) -> Result<()> {
    let front_end = redis::front_end();
    let shared = programs.shared_maps()?;
    let later = LaterProgram::new(front_end.program(name), move || {
        open_sharing(front_end, &shared)
    });
    let program = later.get()?;
    let fd = program.as_fd().as_raw_fd();
    programs
        .map(place)?
        .update(&0u32.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
        .map_err(bpf(format!("put {} into its place", program.name())))
}
