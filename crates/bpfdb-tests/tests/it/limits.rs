//! What happens at the limits: time, memory, locks, sessions.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bpfdb_model::{Error, Gauges};
use bpfdb_tests::kernel::{Kernel, KernelClient, Limits};
use bpfdb_tests::target::{Client, Target, scrub};

const MIB: u64 = 1 << 20;

fn key(i: usize) -> Vec<u8> {
    format!("key {i}").into_bytes()
}

/// The same wherever it is looked for.
fn value(i: usize, length: usize) -> Vec<u8> {
    vec![(i % 251) as u8; length]
}

// ---- Time -------------------------------------------------------------------

/// Long next to what a busy machine may let a thread wait between two calls.
const IDLE: Duration = Duration::from_secs(1);
/// Longer than a busy machine takes for anything.
const PATIENCE: Duration = Duration::from_secs(60);

fn impatient(versions: u32) -> Kernel {
    Kernel::with(Limits {
        idle: IDLE,
        versions,
        ..Limits::default()
    })
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waiting until {what}");
        sleep(Duration::from_millis(5));
    }
}

/// Does it again if this thread was kept from working for so long that it may
/// have been taken for idle; `work` begins and ends what it does.
fn promptly<V>(mut work: impl FnMut() -> V) -> V {
    let first = Instant::now();
    loop {
        let start = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(&mut work));
        match result {
            Ok(value) if start.elapsed() < IDLE / 2 => return value,
            Err(panic) if start.elapsed() < IDLE / 2 => resume_unwind(panic),
            _ => assert!(first.elapsed() < PATIENCE, "the machine is too slow"),
        }
    }
}
/// A client whose transaction has set x, and a moment before that.
fn holder_of_x(kernel: &Kernel) -> (KernelClient, Instant) {
    promptly(|| {
        let mut client = kernel.client();
        client.begin().unwrap();
        let active = Instant::now();
        client.set(b"x", b"idle").unwrap();
        (client, active)
    })
}

#[test]
fn an_idle_transaction_is_rolled_back() {
    let kernel = impatient(4);
    for end in [Client::commit, Client::rollback] {
        let (mut idle, active) = holder_of_x(&kernel);
        let mut other = kernel.client();
        wait_until("the lock is gone", || {
            let outcome = other.set(b"x", b"other");
            assert!(matches!(outcome, Ok(()) | Err(Error::Conflict)));
            outcome.is_ok()
        });
        let waited = active.elapsed();
        // The engine goes by the ticks of its timer.
        assert!(waited >= IDLE / 2, "rolled back after {waited:?} already");

        // It gets that error until it ends what it had begun.
        assert_eq!(idle.get(b"x"), Err(Error::TimedOut));
        assert_eq!(idle.set(b"x", b"idle"), Err(Error::TimedOut));
        assert_eq!(idle.begin(), Err(Error::TimedOut));
        match end(&mut idle) {
            Ok(()) | Err(Error::TimedOut) => {}
            other => panic!("the end of a rolled back transaction is {other:?}"),
        }
        assert_eq!(idle.get(b"x").unwrap().unwrap(), b"other");
        promptly(|| {
            let _ = idle.rollback();
            idle.begin().unwrap();
            idle.set(b"x", b"again").unwrap();
            idle.commit().unwrap();
        });
    }
    scrub(&kernel, &[b"x".to_vec()]).unwrap();
}

#[test]
fn commit_after_the_idle_limit_says_timed_out() {
    let kernel = impatient(4);
    let (mut idle, _) = holder_of_x(&kernel);
    wait_until("the lock is gone", || kernel.gauges().locks == 0);
    assert_eq!(idle.commit(), Err(Error::TimedOut));
    assert_eq!(idle.get(b"x"), Ok(None));
}

#[test]
fn an_idle_snapshot_ends() {
    let kernel = impatient(1);
    let mut writer = kernel.client();
    writer.set(b"x", b"1").unwrap();
    let mut idle = promptly(|| {
        let mut idle = kernel.client();
        idle.begin_read_only().unwrap();
        assert_eq!(writer.set(b"x", b"2"), Err(Error::VersionsFull));
        idle
    });
    wait_until("the snapshot has ended", || {
        let outcome = writer.set(b"x", b"2");
        assert!(matches!(outcome, Ok(()) | Err(Error::VersionsFull)));
        outcome.is_ok()
    });
    assert_eq!(idle.get(b"x"), Err(Error::TimedOut));
    idle.rollback().unwrap();
    assert_eq!(idle.get(b"x").unwrap().unwrap(), b"2");
}

#[test]
fn a_transaction_right_after_creation_is_not_idle() {
    for _ in 0..3 {
        let kernel = Kernel::with(Limits {
            idle: Duration::from_secs(600),
            ..Limits::default()
        });
        let mut client = kernel.client();
        client.begin().unwrap();
        sleep(Duration::from_millis(50));
        assert_eq!(client.get(b"x"), Ok(None));
    }
}

#[test]
fn who_works_is_not_idle() {
    let kernel = impatient(4);
    wait_until("one could work all the time", || {
        let (outcome, pause) = work_for(IDLE * 2, &mut kernel.client());
        let undisturbed = pause < IDLE / 2;
        assert!(outcome.is_ok() || !undisturbed, "{outcome:?}, {pause:?}");
        undisturbed
    });

    // Nor is a session without a transaction.
    let mut client = kernel.client();
    client.set(b"x", b"1").unwrap();
    sleep(IDLE * 2);
    assert_eq!(client.get(b"x").unwrap().unwrap(), b"1");
    client.set(b"x", b"2").unwrap();
}

/// One transaction; the longest time in which it may have done nothing.
fn work_for(time: Duration, client: &mut KernelClient) -> (Result<(), Error>, Duration) {
    let start = Instant::now();
    let (mut last, mut longest) = (start, Duration::ZERO);
    let mut work = || {
        client.begin()?;
        while start.elapsed() < time {
            sleep(IDLE / 30);
            client.set(b"x", b"1")?;
            client.get(b"y")?;
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        client.commit()
    };
    let outcome = work();
    (outcome, longest.max(last.elapsed()))
}

#[test]
fn short_transactions_are_never_taken_for_idle() {
    // The reaper looks at sessions that begin and end all the time.
    let idle = Duration::from_millis(20);
    let kernel = Kernel::with(Limits {
        idle,
        ..Limits::default()
    });
    let mut client = kernel.client();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        client.begin().unwrap();
        match client.set(b"x", b"1") {
            Ok(()) | Err(Error::TimedOut) => {}
            other => panic!("SET: {other:?}"),
        }
        // Most sleeps end before the limit; some end just about at it.
        let pause = 15_000 + start.elapsed().subsec_nanos() % 6_000;
        sleep(Duration::from_micros(u64::from(pause)));
        match client.commit() {
            Ok(()) | Err(Error::TimedOut) => {}
            other => panic!("COMMIT: {other:?}"),
        }
        // Whatever it was, it has ended.
        client.get(b"x").unwrap();
    }
}

// ---- Memory -----------------------------------------------------------------

const SMALL: u64 = 48 * MIB;

fn small() -> Kernel {
    Kernel::with(Limits {
        memory: SMALL,
        ..Limits::default()
    })
}

/// Sets keys until there is no memory; how many.
fn fill(client: &mut KernelClient, length: usize) -> usize {
    for i in 0.. {
        match client.set(&key(i), &value(i, length)) {
            Ok(()) => {}
            Err(Error::OutOfMemory) => return i,
            Err(Error::MemoryPending) => panic!("the session waits for memory itself"),
            Err(other) => panic!("SET: {other}"),
        }
    }
    unreachable!()
}

fn check_all(client: &mut KernelClient, keys: std::ops::Range<usize>, length: usize) {
    for i in keys {
        assert_eq!(client.get(&key(i)), Ok(Some(value(i, length))), "key {i}");
    }
}

#[test]
fn out_of_memory_is_an_error_and_passes() {
    let kernel = small();
    let mut client = kernel.client();
    // Every length needs the memory that the one before gives back. The index
    // keeps its pages, so that it comes last that fills most of them.
    for length in [8192, 65536, 1024, 100, 16] {
        let n = fill(&mut client, length);
        let each = SMALL as usize / n;
        println!("{n} values of {length} bytes: {each} bytes for each");
        assert!(each > length, "more than the limit allows");
        assert!(each < 2 * length + 170, "memory is wasted");
        check_all(&mut client, 0..n, length);

        // In a transaction it is an Error like any other.
        client.begin().unwrap();
        client.delete(&key(0)).unwrap();
        let error = (0..).find_map(|i| client.set(&key(n + i), &value(i, length)).err());
        assert_eq!(error, Some(Error::OutOfMemory));
        assert_eq!(client.commit(), Err(Error::RolledBack));
        check_all(&mut client, 0..n, length);

        // Half of it comes back.
        for i in 0..n / 2 {
            assert_eq!(client.delete(&key(i)), Ok(true), "key {i}");
        }
        for i in 0..n / 3 {
            client
                .set(&key(i), &value(i, length))
                .unwrap_or_else(|e| panic!("SET {i}: {e}"));
        }
        check_all(&mut client, 0..n / 3, length);
        check_all(&mut client, n / 2..n, length);
        let all: Vec<Vec<u8>> = (0..n).map(key).collect();
        scrub(&kernel, &all).unwrap();
    }
}

#[test]
fn out_of_memory_hurts_no_snapshot() {
    let kernel = small();
    let (mut reader, mut writer) = (kernel.client(), kernel.client());
    let n = fill(&mut writer, 1000);
    reader.begin_read_only().unwrap();
    // Deleting and overwriting need memory for what the snapshot sees.
    let mut refused = 0;
    for i in 0..n {
        match writer.delete(&key(i)) {
            Ok(found) => assert!(found, "key {i}"),
            Err(Error::OutOfMemory) => refused += 1,
            Err(other) => panic!("DELETE: {other}"),
        }
    }
    println!("{refused} of {n} deletions were refused");
    check_all(&mut reader, 0..n, 1000);
    reader.commit().unwrap();
    // At the latest now they are possible.
    for i in 0..n {
        writer
            .delete(&key(i))
            .unwrap_or_else(|e| panic!("DELETE {i}: {e}"));
        assert_eq!(writer.get(&key(i)), Ok(None));
    }
    kernel.sweep();
    writer.set(&key(0), &value(0, 1000)).unwrap();
    drop((reader, writer));
    scrub(&kernel, &[key(0)]).unwrap();
}

// ---- Locks and sessions -------------------------------------------------------

#[test]
fn too_many_locks() {
    // Some of them far ones.
    const MOST: usize = 2500;
    let kernel = Kernel::with(Limits {
        locks: MOST as u32,
        ..Limits::default()
    });
    let mut client = kernel.client();
    client.begin().unwrap();
    let most = (0..).find(|i| client.get(&key(*i)).is_err()).unwrap();
    assert_eq!(most as u64, kernel.gauges().locks);
    assert_eq!(most, MOST);
    assert_eq!(client.commit(), Err(Error::RolledBack));

    // As many as allowed: they may all be written, and read again.
    client.begin().unwrap();
    for i in 0..most {
        assert_eq!(client.get(&key(i)), Ok(None));
    }
    for i in 0..most {
        client.set(&key(i), &value(i, i % 40)).unwrap();
    }
    for i in 0..most {
        assert_eq!(client.get(&key(i)), Ok(Some(value(i, i % 40))));
    }
    client.commit().unwrap();
    client.begin().unwrap();
    for i in 0..most {
        assert_eq!(client.delete(&key(i)), Ok(true));
    }
    client.rollback().unwrap();
    for i in 0..most {
        assert_eq!(client.get(&key(i)), Ok(Some(value(i, i % 40))));
    }
    drop(client);
    let all: Vec<Vec<u8>> = (0..most).map(key).collect();
    scrub(&kernel, &all).unwrap();
}

#[test]
fn many_readers_of_one_key() {
    let kernel = Kernel::with(Limits {
        sessions: 100,
        ..Limits::default()
    });
    let mut readers: Vec<KernelClient> = (0..99).map(|_| kernel.client()).collect();
    for reader in &mut readers {
        reader.begin().unwrap();
        assert_eq!(reader.get(b"x"), Ok(None));
    }
    assert_eq!(kernel.gauges().locks, 99);
    let mut writer = kernel.client();
    while let Some(reader) = readers.pop() {
        assert_eq!(writer.set(b"x", b"1"), Err(Error::Conflict));
        drop(reader);
    }
    writer.set(b"x", b"1").unwrap();
    drop(writer);
    scrub(&kernel, &[b"x".to_vec()]).unwrap();
}

#[test]
fn no_more_sessions_than_allowed() {
    let kernel = Kernel::with(Limits {
        sessions: 3,
        ..Limits::default()
    });
    let mut clients: Vec<KernelClient> = (0..3).map(|_| kernel.client()).collect();
    assert_eq!(kernel.try_client().err(), Some(Error::NoSession));
    clients[1].begin().unwrap();
    clients[1].set(b"x", b"1").unwrap();
    clients.remove(1);
    // What takes its place begins with nothing.
    let mut client = kernel.try_client().unwrap();
    assert_eq!(client.get(b"x"), Ok(None));
    assert_eq!(client.commit(), Err(Error::WrongState));
    drop((clients, client));
    scrub(&kernel, &[]).unwrap();
    assert_eq!(kernel.gauges(), Gauges::default());
}
