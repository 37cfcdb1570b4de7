//! What is there after many calls: keys that have come are found, overwriting for long needs no
//! more memory, and a snapshot stands still.

use std::sync::Barrier;
use std::sync::atomic::AtomicU64;

use bpfdb::Status;

use super::*;

// ---- Many keys come ------------------------------------------------------------------

fn names_of(writer: usize, group: usize) -> Vec<String> {
    (0..AT_ONCE)
        .map(|n| match n % 4 {
            0 => format!("new {writer} {group} {n} with a longer name"),
            _ => format!("{writer}/{group}/{n}"),
        })
        .collect()
}

fn content_of(writer: usize, group: usize) -> String {
    let longer = if group.is_multiple_of(8) { 100 } else { 0 };
    format!("{writer} has written {group}{}", "!".repeat(longer))
}

/// Half of the clients write keys that were not there, eight in a call; the others find all keys
/// of each call that was acknowledged. At last all of them are there.
pub(super) fn grow(engine: &Engine, calls: usize, clients: Clients<'_>) -> Run {
    let writers = clients.len() / 2;
    // Of each: how many of its calls are acknowledged.
    let written: Vec<AtomicUsize> = (0..writers).map(|_| AtomicUsize::new(0)).collect();
    let writing = AtomicUsize::new(writers);
    let (_, tally) = in_parallel(clients, |worker| {
        if let Some(written) = written.get(worker.number) {
            let done = (0..calls).try_for_each(|group| write_new(worker, group, written));
            writing.fetch_sub(1, Ordering::Relaxed);
            return done;
        }
        while writing.load(Ordering::Relaxed) > 0 && worker.goes_on() {
            let writer = worker.random.below(writers);
            let acknowledged = written[writer].load(Ordering::Acquire);
            if acknowledged > 0 {
                let group = worker.random.below(acknowledged);
                find(worker, writer, group)?;
            }
        }
        Ok(())
    })?;
    let mut session = engine.session().expect("a session");
    for (writer, written) in written.iter().enumerate() {
        for group in 0..written.load(Ordering::Relaxed) {
            let expected = content_of(writer, group);
            for name in names_of(writer, group) {
                let value = session.get(name.as_bytes()).expect("it is read");
                if value.as_deref() != Some(expected.as_bytes()) {
                    return Err(format!("at last {name} is {value:?}"));
                }
                session.delete(name.as_bytes()).expect("nobody holds it");
            }
        }
    }
    Ok(tally)
}

/// Until it is done. A call that fails leaves none of the keys.
fn write_new(worker: &mut Worker<'_>, group: usize, written: &AtomicUsize) -> Result<(), String> {
    let keys = names_of(worker.number, group);
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let value = content_of(worker.number, group);
    while worker.goes_on() {
        if worker.write("overwrite", &names, &[&value])?.is_some() {
            written.store(group + 1, Ordering::Release);
            break;
        }
        if worker.look(&names)?.iter().any(Option::is_some) {
            return Err(format!("a call that failed has left some of {names:?}"));
        }
    }
    Ok(())
}

fn find(worker: &mut Worker<'_>, writer: usize, group: usize) -> Result<(), String> {
    let keys = names_of(writer, group);
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let expected = content_of(writer, group);
    let values = worker.look(&names)?;
    match values
        .iter()
        .all(|value| value.as_deref() == Some(expected.as_bytes()))
    {
        true => Ok(()),
        false => Err(format!("{names:?} were acknowledged, but are {values:?}")),
    }
}

// ---- Overwriting for long ------------------------------------------------------------

const ROUNDS: usize = 10;
/// Rounds after which memory must not grow.
const WARM_UP: usize = 5;
/// Of a hundred: which sizes meet is random.
const TOLERANCE: u64 = 25;
const PAIRS: usize = 100;

/// Each client overwrites and drops pairs of keys of its own, with values of all sizes.
pub(super) fn churn(engine: &Engine, changes: usize, clients: Clients<'_>) -> Run {
    let barrier = Barrier::new(clients.len());
    let warm = AtomicU64::new(0);
    let (_, tally) = in_parallel(clients, |worker| {
        // All of them are there once, so that memory does not grow with their number.
        let mut there = [false; PAIRS];
        let mut done = (0..PAIRS).try_for_each(|pair| write_pair(worker, pair, &mut there));
        for round in 0..ROUNDS {
            done = done.and_then(|()| change(worker, changes, &mut there));
            worker.failed.fetch_or(done.is_err(), Ordering::Relaxed);
            // All go on, or none: no one waits in vain.
            barrier.wait();
            if !worker.goes_on() {
                return done;
            }
            if worker.number == 0 {
                done = check_memory(engine, round, &warm);
            }
            barrier.wait();
        }
        done?;
        (0..PAIRS).try_for_each(|pair| drop_pair(worker, pair, &mut there))
    })?;
    Ok(tally)
}

fn pair_of(worker: &Worker<'_>, pair: usize) -> [String; 2] {
    [1, 2].map(|n| format!("{} churns {pair}, {n}", worker.number))
}

fn change(worker: &mut Worker<'_>, changes: usize, there: &mut [bool]) -> Result<(), String> {
    for _ in 0..changes {
        if !worker.goes_on() {
            break;
        }
        let pair = worker.random.below(PAIRS);
        if worker.random.one_in(3) {
            drop_pair(worker, pair, there)?;
            continue;
        }
        write_pair(worker, pair, there)?;
    }
    Ok(())
}

fn write_pair(worker: &mut Worker<'_>, pair: usize, there: &mut [bool]) -> Result<(), String> {
    let value = filling(&mut worker.random, 3000);
    let keys = pair_of(worker, pair);
    let names = [keys[0].as_str(), &keys[1]];
    there[pair] |= worker.write("overwrite", &names, &[&value])?.is_some();
    Ok(())
}

/// Until it is done. A call that fails leaves both.
fn drop_pair(worker: &mut Worker<'_>, pair: usize, there: &mut [bool]) -> Result<(), String> {
    let keys = pair_of(worker, pair);
    let names = [keys[0].as_str(), &keys[1]];
    let were = if there[pair] { "2" } else { "0" };
    loop {
        match worker.write("drop", &names, &[])? {
            Some(gone) if gone == were => {
                there[pair] = false;
                return Ok(());
            }
            Some(gone) => return Err(format!("{gone} were dropped, not {were}")),
            None => {}
        }
        let values = worker.look(&names)?;
        if values.iter().any(|value| value.is_some() != there[pair]) {
            return Err(format!("a call that failed has dropped some of {names:?}"));
        }
    }
}

fn check_memory(engine: &Engine, round: usize, warm: &AtomicU64) -> Result<(), String> {
    let stats = engine.stats().map_err(|error| error.to_string())?;
    let used = stats.memory_used();
    if round < WARM_UP {
        warm.fetch_max(used, Ordering::Relaxed);
        return Ok(());
    }
    let most = warm.load(Ordering::Relaxed);
    match used > most + most * TOLERANCE / 100 {
        true => Err(format!("{used} bytes in round {round}, {most} before")),
        false => Ok(()),
    }
}

// ---- Snapshots stand still -----------------------------------------------------------

const WRITTEN_AT_ONCE: usize = 3;

/// Half of the clients write one value under some keys; in a call that only reads all of them have
/// the same value, twice. An idle snapshot sees what it saw, or gets the error that it is too old. (Only
/// one client holds them: with more, a record could need more versions than it has.)
pub(super) fn stand_still(engine: &Engine, calls: usize, clients: Clients<'_>) -> Run {
    let keys: Vec<String> = (0..WRITTEN_AT_ONCE).map(|n| format!("still {n}")).collect();
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let writers = clients.len() / 2;
    let writing = AtomicUsize::new(writers);
    let run = in_parallel(clients, |worker| {
        if worker.number < writers {
            let done = (0..calls).try_for_each(|_| {
                let value = filling(&mut worker.random, 60);
                match worker.goes_on() {
                    true => worker.write("overwrite", &names, &[&value]).map(drop),
                    false => Ok(()),
                }
            });
            writing.fetch_sub(1, Ordering::Relaxed);
            return done;
        }
        let mut session = engine.session().expect("a session");
        while writing.load(Ordering::Relaxed) > 0 && worker.goes_on() {
            match worker.number == writers {
                true => hold(worker, &mut session, &names)?,
                false => see_one(worker, &names)?,
            }
        }
        Ok(())
    });
    delete(engine, &keys);
    run.map(|(_, tally)| tally)
}

/// One value under all names, twice.
fn see_one(worker: &mut Worker<'_>, names: &[&str]) -> Result<(), String> {
    let values = worker.look(&names.repeat(2))?;
    match values.iter().all(|value| *value == values[0]) {
        true => Ok(()),
        false => Err(format!("a call saw {values:?}")),
    }
}

/// An idle snapshot, and calls meanwhile.
fn hold(
    worker: &mut Worker<'_>,
    session: &mut bpfdb::Session,
    names: &[&str],
) -> Result<(), String> {
    let begun = session.begin_read_only();
    begun.map_err(|status| format!("BEGIN: {status:?}"))?;
    let before = read(session, names)?;
    (0..4).try_for_each(|_| see_one(worker, names))?;
    let after = read(session, names)?;
    if let (Some(before), Some(after)) = (&before, &after)
        && (before != after || before.iter().any(|value| *value != before[0]))
    {
        return Err(format!("a snapshot saw {before:?}, then {after:?}"));
    }
    match session.commit() {
        Ok(()) | Err(Status::SnapshotTooOld) => Ok(()),
        Err(status) => Err(format!("COMMIT: {status:?}")),
    }
}

/// `None`: the snapshot is too old.
fn read(
    session: &mut bpfdb::Session,
    names: &[&str],
) -> Result<Option<Vec<Option<Vec<u8>>>>, String> {
    let values = names.iter().map(|name| session.get(name.as_bytes()));
    match values.collect() {
        Ok(values) => Ok(Some(values)),
        Err(Status::SnapshotTooOld) => Ok(None),
        Err(status) => Err(format!("GET: {status:?}")),
    }
}
