//! The programs that have cold values read before the daemon asks for them (`bpf/redis/prefetch.bpf.h` is the other
//! side). They are loaded, and memory for reads is made, when `tier-prefetch` is `yes` for the first time.
//!
//! Each step before the last can be taken back, so that the kernel begins reads with both programs or not at all:
//! load both ──► put both into their places, where they find that no read may begin ──► make the ring.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bpfdb::LaterProgram;
use bpfdb_tier::{PrefetchMaps, Tier};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::apart::{ProgramLoader, open_sharing};
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
/// Of that entry.
const KEY: [u8; 4] = 0u32.to_ne_bytes();

type Maps = Vec<(String, OwnedFd)>;

/// What is needed to begin.
struct Prefetch {
    maps: Maps,
    /// Of both programs, in the order of [`PLACES`].
    places: Vec<MapHandle>,
    tier: Arc<Tier>,
}

/// Has the kernel begin reads of cold values once it is asked, while the tier is enabled to. If it cannot, the daemon reads
/// all of them, and this is logged.
///
/// # Errors
/// There is no descriptor.
pub(crate) fn loader(programs: &Programs, tier: &Arc<Tier>) -> Result<ProgramLoader> {
    let places = PLACES.iter().map(|(_, place)| programs.map(place));
    let places = places.collect::<Result<Vec<_>>>()?;
    if tier.has_prefetcher() && is_in_place(&places)? {
        return Ok(ProgramLoader::over());
    }
    let prefetch = Prefetch {
        maps: programs.shared_maps()?,
        places,
        tier: Arc::clone(tier),
    };
    Ok(ProgramLoader::of(move || prefetch.start_or_tell()))
}

/// Whether a server before has loaded the programs.
fn is_in_place(places: &[MapHandle]) -> Result<bool> {
    let found = places.iter().map(|place| place.lookup(&KEY, MapFlags::ANY));
    let found = found.collect::<std::result::Result<Vec<_>, _>>();
    let found = found.map_err(bpf("look for a program in its place"))?;
    Ok(found.iter().all(Option::is_some))
}

impl Prefetch {
    fn start_or_tell(self) {
        match self.start() {
            Ok(()) => tracing::info!("the kernel begins reads of cold values from now on"),
            Err(error) => tracing::warn!(
                %error,
                "the daemon reads cold values when it needs them: the kernel cannot begin before"
            ),
        }
    }

    fn start(self) -> Result<()> {
        let Self {
            mut maps,
            places,
            tier,
        } = self;
        // That of the programs which are there has room for no read.
        let reads = bpfdb_tier::create_reads().map_err(system("make memory for reads"))?;
        for (_, map) in maps.iter_mut().filter(|(name, _)| name == READS) {
            *map = reads
                .as_fd()
                .try_clone_to_owned()
                .map_err(system("share a map"))?;
        }
        let maps = Arc::new(maps);
        let programs = PLACES.map(|(name, _)| program(name, &maps));
        programs
            .iter()
            .try_for_each(|program| program.get().map(drop))?;
        let begun = programs
            .iter()
            .zip(&places)
            .try_for_each(|(program, place)| put(program, place))
            .and_then(|()| make_ring(&maps, reads.as_fd(), &tier));
        if begun.is_err() {
            for place in &places {
                // What is not there cannot be taken out.
                let _ = place.delete(&KEY);
            }
        }
        begun
    }
}

/// The program of this name, which is not loaded yet.
fn program(name: &str, maps: &Arc<Maps>) -> LaterProgram {
    let front_end = redis::front_end();
    let maps = Arc::clone(maps);
    LaterProgram::new(front_end.program(name), move || {
        open_sharing(front_end, &maps)
    })
}

/// Puts a program into its place, which keeps it.
fn put(program: &LaterProgram, place: &MapHandle) -> Result<()> {
    let program = program.get()?;
    let fd = program.as_fd().as_raw_fd();
    place
        .update(&KEY, &fd.to_ne_bytes(), MapFlags::ANY)
        .map_err(bpf(format!("put {} into its place", program.name())))
}

fn make_ring(maps: &Maps, reads: BorrowedFd<'_>, tier: &Tier) -> Result<()> {
    let maps = PrefetchMaps {
        memory: find(maps, MEMORY)?,
        reads,
        bell: find(maps, BELL)?,
    };
    tier.prefetch(&maps)
        .map_err(system("make an io_uring in memory of programs"))
}

fn find<'a>(maps: &'a Maps, name: &str) -> Result<BorrowedFd<'a>> {
    let found = maps.iter().find(|(known, _)| known == name);
    found
        .map(|(_, fd)| fd.as_fd())
        .ok_or_else(|| Error::Unsupported(format!("the BPF object has no map {name}")))
}
