//! With maps that no program has: these tests do what a program does.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::thread;

use libbpf_rs::{MapHandle, MapType};

use super::*;

/// `IORING_OP_READ_FIXED` of a registered file.
const READ_FIXED: u64 = 4 | 1 << 8;
const RUN: u64 = 1027;

fn map(kind: MapType, value: usize, entries: u32, flags: u32) -> MapHandle {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: flags,
        ..Default::default()
    };
    let key = if matches!(kind, MapType::RingBuf) {
        0
    } else {
        4
    };
    MapHandle::create(kind, Some("prefetch"), key, value as u32, entries, &options).expect("a map")
}

fn prefetcher() -> Prefetcher {
    let array = |value, entries| map(MapType::Array, value, entries, libbpf_sys::BPF_F_MMAPABLE);
    let memory = array(size_of::<bpfdb_prefetching>(), 1);
    let reads = array(STRIDE, PREFETCHES);
    let bell = map(MapType::RingBuf, 0, 4096, 0);
    Prefetcher::start(&PrefetchMaps {
        memory: memory.as_fd(),
        reads: reads.as_fd(),
        bell: bell.as_fd(),
    })
    .expect("io_uring")
}

fn place(offset: u64) -> ColdPlace {
    ColdPlace {
        run: RUN,
        offset,
        checksum: 0,
    }
}

/// A file of a run, with these bytes at its beginning.
fn file(prefetcher: &Prefetcher, bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("written");
    prefetcher.set_file(RUN, Some(file.as_fd()));
    file
}

/// Has a slot for this place, and its read in the queue if `is_submitted`.
fn begin(prefetcher: &Prefetcher, place: ColdPlace, bytes: usize, is_submitted: bool) -> usize {
    let slot = home(place) % SLOTS;
    let memory = prefetcher.slot(slot);
    // SAFETY: within the mapping; nothing else uses the slot.
    unsafe {
        (&raw mut (*memory).run).write_volatile(place.run);
        (&raw mut (*memory).offset).write_volatile((place.offset / COLD_GRAIN) as u32);
    }
    let state = prefetcher.state(slot);
    state.store(abi::BPFDB_PREFETCH_READING, Ordering::Release);
    let read: Entry = [
        READ_FIXED | (place.run % RUNS) << 32,
        place.offset,
        prefetcher.entry(slot).expose_provenance() as u64,
        bytes as u64,
        slot as u64,
        0,
        0,
        0,
    ];
    if is_submitted {
        // SAFETY: the slot's own entry.
        assert!(unsafe { prefetcher.ring.put(&read) });
    }
    slot
}

fn state(prefetcher: &Prefetcher, slot: usize) -> u32 {
    prefetcher.state(slot).load(Ordering::Acquire)
}

/// What is found when the read has completed.
fn take(prefetcher: &Prefetcher, place: ColdPlace, bytes: usize) -> Option<Vec<u8>> {
    until_read(prefetcher, home(place) % SLOTS);
    prefetcher.take(place, bytes, |entry| Some(entry.to_vec()))
}

fn until_read(prefetcher: &Prefetcher, slot: usize) {
    let begun = Instant::now();
    while state(prefetcher, slot) == abi::BPFDB_PREFETCH_READING {
        assert!(begun.elapsed() < Duration::from_secs(60));
        if prefetcher.ring.sleeps_over_requests() {
            prefetcher.ring.wake().expect("woken");
        }
        thread::sleep(Duration::from_micros(100));
        prefetcher.take_completions();
    }
}

#[test]
fn a_read_is_found_and_its_slot_is_free_then() {
    let prefetcher = prefetcher();
    let _file = file(&prefetcher, b"0123456789abcdefghij");
    for round in 0..3 {
        // Now and then io_uring's thread sleeps.
        thread::sleep(Duration::from_millis(5 * round));
        let slot = begin(&prefetcher, place(16), 4, true);
        assert_eq!(take(&prefetcher, place(16), 4), Some(b"ghij".to_vec()));
        assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_FREE);
        assert_eq!(take(&prefetcher, place(16), 4), None);
    }
    assert_eq!(prefetcher.figures().used, 3);
}

#[test]
fn many_reads_are_told_apart() {
    let prefetcher = prefetcher();
    let bytes: Vec<u8> = (0..2048u32).map(|at| (at / 16) as u8).collect();
    let _file = file(&prefetcher, &bytes);
    let mut begun = Vec::new();
    for at in 0..128 {
        let slot = home(place(at * 16)) % SLOTS;
        if state(&prefetcher, slot) == abi::BPFDB_PREFETCH_FREE {
            begin(&prefetcher, place(at * 16), 16, true);
            begun.push(at);
        }
    }
    assert!(begun.len() > 50, "{}", begun.len());
    for at in begun.into_iter().rev() {
        let expected = vec![at as u8; 16];
        assert_eq!(take(&prefetcher, place(at * 16), 16), Some(expected));
    }
}

#[test]
fn what_fails_or_is_not_taken_leaves_its_slot_free() {
    let prefetcher = prefetcher();
    let file = file(&prefetcher, b"0123");
    // The file ends before.
    let slot = begin(&prefetcher, place(0), 8, true);
    assert_eq!(take(&prefetcher, place(0), 8), None);
    assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_FREE);
    // It is not what is wanted.
    let slot = begin(&prefetcher, place(0), 4, true);
    until_read(&prefetcher, slot);
    assert_eq!(prefetcher.take(place(0), 4, |_| None::<()>), None);
    assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_FREE);
    // The run has gone.
    prefetcher.set_file(RUN, None);
    let slot = begin(&prefetcher, place(0), 4, true);
    assert_eq!(take(&prefetcher, place(0), 4), None);
    assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_FREE);
    assert_eq!(prefetcher.figures().failed, 3);
    drop(file);
}

#[test]
fn a_read_that_nothing_asks_for_makes_room() {
    let prefetcher = prefetcher();
    let _file = file(&prefetcher, b"0123456789abcdef");
    let slot = begin(&prefetcher, place(0), 4, true);
    let begun = Instant::now();
    until_read(&prefetcher, slot);
    while prefetcher.figures().unused == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(5));
        prefetcher.take_completions();
    }
    assert!(begun.elapsed() > KEPT);
    assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_FREE);
    assert_eq!(take(&prefetcher, place(0), 4), None);
}

#[test]
fn a_read_that_is_under_way_is_not_waited_for_and_keeps_its_slot() {
    let prefetcher = prefetcher();
    let slot = begin(&prefetcher, place(32), 4, false);
    let taken = prefetcher.take(place(32), 4, |entry| Some(entry.to_vec()));
    assert_eq!(taken, None);
    assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_READING);
    assert_eq!(prefetcher.figures().late, 1);
}
