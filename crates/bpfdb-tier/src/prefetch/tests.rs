//! With maps that no program has: these tests do what a program does.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::thread;

use libbpf_rs::MapType;

use super::*;
use crate::bell::create_map;

/// `IORING_OP_READ_FIXED` of a registered file.
const READ_FIXED: u64 = 4 | 1 << 8;
const RUN: u64 = 1027;
const ECANCELED: i32 = 125;

/// It keeps what nothing asks for: a test may be off the processor for long.
fn prefetcher() -> Prefetcher {
    let mut prefetcher = forgetful();
    prefetcher.kept = Duration::MAX;
    prefetcher
}

/// As the server has it.
fn forgetful() -> Prefetcher {
    let bytes = size_of::<bpfdb_prefetching>();
    let memory = create_array("memory", bytes, 1).expect("a map");
    let reads = create_reads().expect("a map");
    let bell = create_map("bell", MapType::RingBuf, 0, 0, 4096, 0).expect("a map");
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

/// Has a slot for this place, and its read in the queue.
fn begin(prefetcher: &Prefetcher, place: ColdPlace, bytes: usize) -> usize {
    let slot = claim(prefetcher, place);
    submit(prefetcher, slot, place, bytes);
    slot
}

/// Has a slot for this place, whose read is not in the queue.
fn claim(prefetcher: &Prefetcher, place: ColdPlace) -> usize {
    let slot = home(place) % SLOTS;
    let memory = prefetcher.slot(slot);
    // SAFETY: within the mapping; nothing else uses the slot.
    unsafe {
        (&raw mut (*memory).run).write_volatile(place.run);
        (&raw mut (*memory).offset).write_volatile((place.offset / COLD_GRAIN) as u32);
    }
    let state = prefetcher.state(slot);
    state.store(abi::BPFDB_PREFETCH_READING, Ordering::Release);
    slot
}

fn submit(prefetcher: &Prefetcher, slot: usize, place: ColdPlace, bytes: usize) {
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
    // SAFETY: the slot's own entry.
    assert!(unsafe { prefetcher.ring.put(&read) });
}

/// What programs see: threads that read themselves, and reads that have ended.
fn seen(prefetcher: &Prefetcher) -> (u32, u64) {
    let all: *mut bpfdb_prefetching = prefetcher.memory.at(0);
    // SAFETY: aligned words within the mapping.
    unsafe {
        (
            (&raw const (*all).reading).read_volatile(),
            (&raw const (*all).ended).read_volatile(),
        )
    }
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

/// Waits until so many reads were given up because nothing asked for them.
fn until_unused(prefetcher: &Prefetcher, count: u64) {
    let begun = Instant::now();
    while prefetcher.figures().unused < count {
        assert!(begun.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(5));
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
        let slot = begin(&prefetcher, place(16), 4);
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
            begin(&prefetcher, place(at * 16), 16);
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
    let slot = begin(&prefetcher, place(0), 8);
    assert_eq!(take(&prefetcher, place(0), 8), None);
    assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_FREE);
    // It is not what is wanted.
    let slot = begin(&prefetcher, place(0), 4);
    until_read(&prefetcher, slot);
    assert_eq!(prefetcher.take(place(0), 4, |_| None::<()>), None);
    assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_FREE);
    // The run has gone.
    prefetcher.set_file(RUN, None);
    let slot = begin(&prefetcher, place(0), 4);
    assert_eq!(take(&prefetcher, place(0), 4), None);
    assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_FREE);
    assert_eq!(prefetcher.figures().failed, 3);
    drop(file);
}

#[test]
fn a_read_that_nothing_asks_for_makes_room() {
    let prefetcher = forgetful();
    let _file = file(&prefetcher, b"0123456789abcdef");
    let slot = begin(&prefetcher, place(0), 4);
    let begun = Instant::now();
    until_read(&prefetcher, slot);
    until_unused(&prefetcher, 1);
    assert_eq!(seen(&prefetcher), (0, 1));
    assert!(begun.elapsed() > KEPT);
    assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_FREE);
    assert_eq!(take(&prefetcher, place(0), 4), None);
}

#[test]
fn a_read_that_is_under_way_is_not_waited_for_and_its_slot_is_free_when_it_ends() {
    let prefetcher = prefetcher();
    let _file = file(&prefetcher, b"0123456789abcdef0123456789abcdefghij");
    for round in 1..4 {
        let slot = claim(&prefetcher, place(32));
        for _ in 0..2 {
            let taken = prefetcher.take(place(32), 4, |entry| Some(entry.to_vec()));
            assert_eq!(taken, None);
            assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_READING);
        }
        assert_eq!(prefetcher.figures().late, round - 1);
        submit(&prefetcher, slot, place(32), 4);
        until_read(&prefetcher, slot);
        assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_FREE);
        let figures = prefetcher.figures();
        assert_eq!((figures.late, figures.used), (round, 0));
    }
    // The next one is not late.
    begin(&prefetcher, place(32), 4);
    assert_eq!(take(&prefetcher, place(32), 4), Some(b"ghij".to_vec()));
    let figures = prefetcher.figures();
    assert_eq!((figures.late, figures.used, figures.unused), (3, 1, 0));
}

/// The number of a file is that of the run a thousand numbers later, too.
#[test]
fn a_run_that_goes_while_it_is_read_leaves_its_slot_free() {
    let prefetcher = prefetcher();
    let old = file(&prefetcher, b"0123");
    for _ in 0..20 {
        // Now and then io_uring's thread sleeps, and looks for the file later.
        thread::sleep(Duration::from_millis(3));
        prefetcher.set_file(RUN, Some(old.as_fd()));
        let slot = begin(&prefetcher, place(0), 4);
        let mut next = tempfile::tempfile().expect("a file");
        next.write_all(b"4567").expect("written");
        prefetcher.set_file(RUN + RUNS, Some(next.as_fd()));
        until_read(&prefetcher, slot);
        let mut seen = Vec::new();
        let found = prefetcher.take(place(0), 4, |entry| {
            seen = entry.to_vec();
            (entry == b"0123").then_some(())
        });
        assert_eq!(found.is_some(), seen == b"0123");
        assert!(found.is_some() || seen == b"4567", "{seen:?}");
        assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_FREE);
    }
    let figures = prefetcher.figures();
    assert_eq!(figures.used + figures.failed, 20);
}

#[test]
fn programs_see_that_values_are_being_read() {
    let prefetcher = prefetcher();
    let _file = file(&prefetcher, b"0123456789abcdef");
    assert_eq!(seen(&prefetcher), (0, 0));
    let reads = [prefetcher.reads_itself(), prefetcher.reads_itself()];
    assert_eq!(seen(&prefetcher), (2, 0));
    drop(reads);
    // One is used, one fails, one is late.
    begin(&prefetcher, place(0), 4);
    assert_eq!(seen(&prefetcher), (0, 0));
    assert!(take(&prefetcher, place(0), 4).is_some());
    assert_eq!(seen(&prefetcher), (0, 1));
    begin(&prefetcher, place(0), 20);
    assert_eq!(take(&prefetcher, place(0), 20), None);
    let slot = claim(&prefetcher, place(0));
    assert_eq!(prefetcher.take(place(0), 4, |_| Some(())), None);
    assert_eq!(seen(&prefetcher), (0, 2));
    submit(&prefetcher, slot, place(0), 4);
    until_read(&prefetcher, slot);
    assert_eq!(seen(&prefetcher), (0, 3));
}

#[test]
fn completions_are_another_threads_while_it_takes_them() {
    let prefetcher = prefetcher();
    let _file = file(&prefetcher, b"0123");
    let slot = begin(&prefetcher, place(0), 4);
    let other = prefetcher.read.lock().expect("not poisoned");
    for _ in 0..3 {
        assert_eq!(prefetcher.take(place(0), 4, |_| Some(())), None);
    }
    assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_READING);
    drop(other);
    until_read(&prefetcher, slot);
}

#[test]
fn a_slot_that_another_thread_looks_at_is_given_up_later() {
    let prefetcher = forgetful();
    let _file = file(&prefetcher, b"0123");
    let slot = begin(&prefetcher, place(0), 4);
    until_read(&prefetcher, slot);
    let word = prefetcher.state(slot);
    word.store(abi::BPFDB_PREFETCH_TAKEN, Ordering::Release);
    thread::sleep(2 * KEPT);
    prefetcher.take_completions();
    assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_TAKEN);
    // It was not the one.
    word.store(abi::BPFDB_PREFETCH_READ, Ordering::Release);
    until_unused(&prefetcher, 1);
    assert_eq!(state(&prefetcher, slot), abi::BPFDB_PREFETCH_FREE);
}

#[test]
fn a_bell_that_is_lost_is_polled_again() {
    let prefetcher = prefetcher();
    let all: *mut bpfdb_prefetching = prefetcher.memory.at(0);
    // SAFETY: an aligned word within the mapping.
    let busy = unsafe { AtomicU32::from_ptr(&raw mut (*all).ring.busy) };
    let is_lost = || prefetcher.bell_is_lost.load(Ordering::Relaxed);
    for result in [0, -ECANCELED] {
        prefetcher.hear_bell(Completion {
            user_data: BELL,
            result,
            flags: 0,
        });
        // A program writes to the queue.
        busy.store(1, Ordering::SeqCst);
        prefetcher.take_completions();
        assert!(is_lost());
        busy.store(0, Ordering::SeqCst);
        prefetcher.take_completions();
        assert!(!is_lost());
    }
}
