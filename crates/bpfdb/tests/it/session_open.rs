//! What it takes to open a session, however many there are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use bpfdb::{Engine, Options};

const SESSIONS: u32 = 10_000;
/// Short, and many: some of them are disturbed by nothing else on the machine.
const ROUNDS: u32 = 500;
const PER_ROUND: u32 = 50;

fn open(engine: &Engine) -> Option<u32> {
    engine.open_session().expect("the program runs")
}

/// Nanoseconds of one open and one close, system calls included: the least of
/// all rounds, so that what else the machine does is left out.
fn nanoseconds(engine: &Engine) -> u128 {
    let round = || {
        let start = Instant::now();
        for _ in 0..PER_ROUND {
            let index = open(engine).expect("a session is free");
            engine.close_session(index).expect("the program runs");
        }
        start.elapsed().as_nanos() / u128::from(PER_ROUND)
    };
    (0..ROUNDS).map(|_| round()).min().expect("some rounds")
}

#[test]
fn a_session_is_found_in_constant_time() {
    let engine = Engine::create(&Options {
        memory_limit: 64 << 20,
        max_sessions: SESSIONS,
        ..Options::default()
    })
    .expect("the engine starts");
    let alone = nanoseconds(&engine);
    let others: Vec<u32> = (1..SESSIONS).filter_map(|_| open(&engine)).collect();
    assert_eq!(others.len() as u32, SESSIONS - 1);
    let beside = nanoseconds(&engine);
    println!(
        "open and close: {alone} ns alone, {beside} ns beside {}",
        others.len()
    );
    assert!(
        beside < 3 * alone,
        "{beside} ns beside others, {alone} ns alone"
    );

    let last = open(&engine).expect("one is free");
    assert!(!others.contains(&last));
    assert_eq!(open(&engine), None);
    engine.close_session(others[7]).expect("the program runs");
    assert_eq!(open(&engine), Some(others[7]));
}

/// The list is changed by several processors at once, and runs empty all the time.
#[test]
fn no_session_is_handed_out_twice() {
    const FEW: u32 = 8;
    let engine = Engine::create(&Options {
        memory_limit: 64 << 20,
        max_sessions: FEW,
        ..Options::default()
    })
    .expect("the engine starts");
    let taken: Vec<AtomicBool> = (0..FEW).map(|_| AtomicBool::new(false)).collect();
    let take_and_give = |at_once: usize| {
        for _ in 0..20_000 {
            let mine: Vec<u32> = (0..at_once).filter_map(|_| open(&engine)).collect();
            for &index in &mine {
                let twice = taken[index as usize].swap(true, Ordering::SeqCst);
                assert!(!twice, "session {index} is somebody else's");
            }
            for &index in &mine {
                taken[index as usize].store(false, Ordering::SeqCst);
                engine.close_session(index).expect("the program runs");
            }
        }
    };
    thread::scope(|scope| {
        for at_once in 1..5 {
            let take_and_give = &take_and_give;
            scope.spawn(move || take_and_give(at_once));
        }
    });
    let all: Vec<u32> = (0..FEW).filter_map(|_| open(&engine)).collect();
    assert_eq!(all.len() as u32, FEW, "none is lost");
    assert_eq!(open(&engine), None);
}
