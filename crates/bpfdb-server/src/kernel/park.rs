//! The programs that answer GETs of cold values when these have been read (`bpf/redis/park.bpf.h` is the other side).
//! They are loaded, and memory is made, when `tier-kernel-gets` is `yes` for the first time.
//!
//! Each step before the last can be taken back:
//! load all ──► attach the one that hears of completions, which knows no ring ──► make the ring ──► put the others into their
//! places, where they find no seat before a connection has one.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use bpfdb::LaterProgram;
use bpfdb_tier::{ParkMaps, Tier};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::apart::{ProgramLoader, open_sharing};
use super::programs::Programs;
use super::redis;
use crate::error::{Error, Result, bpf, system};

const MEMORY: &str = ".bss.park";
const SEATS: &str = "seats";
const BELL: &str = "park_bell";
/// Each program that another one enters, and the map that has it as its only entry.
const PLACES: [(&str, &str); 2] = [(redis::PARK, "parker"), (redis::SENT, "park_sender")];
/// Of that entry.
const KEY: [u8; 4] = 0u32.to_ne_bytes();

type Maps = Vec<(String, OwnedFd)>;

/// What is needed to begin.
struct Park {
    maps: Maps,
    /// Of the programs that are entered, in the order of [`PLACES`].
    places: Vec<MapHandle>,
    tier: Arc<Tier>,
}

/// Has the kernel answer GETs of cold values once it is asked, while the tier is enabled to. If it cannot, the daemon
/// answers all of them, and this is logged.
///
/// # Errors
/// There is no descriptor.
pub(crate) fn loader(programs: &Programs, tier: &Arc<Tier>) -> Result<ProgramLoader> {
    let places = PLACES.iter().map(|(_, place)| programs.map(place));
    let places = places.collect::<Result<Vec<_>>>()?;
    if tier.has_parker() && is_in_place(&places)? {
        return Ok(ProgramLoader::over());
    }
    let park = Park {
        maps: programs.shared_maps()?,
        places,
        tier: Arc::clone(tier),
    };
    Ok(ProgramLoader::of(move || park.start_or_tell()))
}

/// Whether a server before has loaded the programs.
fn is_in_place(places: &[MapHandle]) -> Result<bool> {
    let found = places.iter().map(|place| place.lookup(&KEY, MapFlags::ANY));
    let found = found.collect::<std::result::Result<Vec<_>, _>>();
    let found = found.map_err(bpf("look for a program in its place"))?;
    Ok(found.iter().all(Option::is_some))
}

impl Park {
    fn start_or_tell(self) {
        match self.start() {
            Ok(()) => tracing::info!("the kernel answers GETs of cold values from now on"),
            Err(error) => tracing::warn!(
                %error,
                "the daemon answers GETs of cold values: the kernel cannot"
            ),
        }
    }

    fn start(self) -> Result<()> {
        let Self {
            mut maps,
            places,
            tier,
        } = self;
        // That of the programs which are there has room for one seat, which nobody has.
        let seats = bpfdb_tier::create_seats().map_err(system("make memory for requests"))?;
        for (_, map) in maps.iter_mut().filter(|(name, _)| name == SEATS) {
            *map = seats
                .as_fd()
                .try_clone_to_owned()
                .map_err(system("share a map"))?;
        }
        let maps = Arc::new(maps);
        let programs = PLACES.map(|(name, _)| program(name, &maps));
        for program in &programs {
            program.get()?;
        }
        let tracepoint = attach(&program(redis::COMPLETED, &maps))?;
        let begun = programs
            .iter()
            .zip(&places)
            .try_for_each(|(program, place)| put(program, place))
            .and_then(|()| make_ring(&maps, seats.as_fd(), tracepoint, &tier));
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

/// Attaches a program to the tracepoint that its type names, as long as what is returned is open.
fn attach(program: &LaterProgram) -> Result<OwnedFd> {
    let program = program.get()?;
    let fd = program.as_fd().as_raw_fd();
    // SAFETY: plain system call; no name, for a program that knows its tracepoint.
    let link = unsafe { libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), fd) };
    if link < 0 {
        let error = std::io::Error::from_raw_os_error(-link);
        return Err(system(format!("attach {}", program.name()))(error));
    }
    // SAFETY: a new descriptor that is not shared.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

/// Puts a program into its place, which keeps it.
fn put(program: &LaterProgram, place: &MapHandle) -> Result<()> {
    let program = program.get()?;
    let fd = program.as_fd().as_raw_fd();
    place
        .update(&KEY, &fd.to_ne_bytes(), MapFlags::ANY)
        .map_err(bpf(format!("put {} into its place", program.name())))
}

fn make_ring(maps: &Maps, seats: BorrowedFd<'_>, tracepoint: OwnedFd, tier: &Tier) -> Result<()> {
    let maps = ParkMaps {
        memory: find(maps, MEMORY)?,
        seats,
        bell: find(maps, BELL)?,
    };
    tier.park(&maps, tracepoint)
        .map_err(system("make an io_uring in memory of programs"))
}

fn find<'a>(maps: &'a Maps, name: &str) -> Result<BorrowedFd<'a>> {
    let found = maps.iter().find(|(known, _)| known == name);
    found
        .map(|(_, fd)| fd.as_fd())
        .ok_or_else(|| Error::Unsupported(format!("the BPF object has no map {name}")))
}
