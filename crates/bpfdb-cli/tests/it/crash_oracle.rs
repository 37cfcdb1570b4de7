//! What the oracle of the crash loop refuses.

use crate::common;

use std::time::{Duration, Instant};

use common::clients::{Crash, Found, History, State, Width, Write, writes};

fn several(step: u64) -> Vec<Write> {
    writes(step, Width::Several, true)
}

fn one(step: u64) -> Vec<Write> {
    writes(step, Width::One, true)
}

fn blind(step: u64) -> Vec<Write> {
    writes(step, Width::Blind, true)
}

fn after(steps: u64, writes: fn(u64) -> Vec<Write>) -> State {
    let mut state = State::default();
    for step in 1..=steps {
        state.apply(step, &writes(step));
    }
    state
}

fn crash(found: Found) -> Crash {
    let when = Instant::now();
    Crash { when, found }
}

/// A client that has sent ten steps, and got a reply that five of them are durable, and of seven in
/// all.
fn history() -> History {
    let mut history = History::new();
    for step in 1..=7 {
        history.tried(step);
        history.acknowledged(Instant::now(), step, step <= 5);
    }
    history.tried(10);
    history
}

#[test]
fn a_step_that_was_sent_may_be_there_or_not() {
    for last in 5..=10 {
        let settled = history().settle(&after(last, several), crash(Found::Files), several);
        let (found, lost) = settled.expect("as promised");
        assert_eq!((found, lost.steps), (last, 7_u64.saturating_sub(last)));
    }
}

#[test]
fn a_promised_step_must_be_there() {
    for last in 0..5 {
        let settled = history().settle(&after(last, several), crash(Found::Files), several);
        assert!(settled.expect_err("lost").contains("was promised"));
    }
    // What is in the kernel has everything.
    for last in 5..7 {
        let settled = history().settle(&after(last, several), crash(Found::Kernel), several);
        assert!(settled.expect_err("lost").contains("in the kernel"));
    }
}

/// Where a server found what is there, decides what must be there after one crash more.
#[test]
fn what_was_read_from_files_stays() {
    for (found, stays) in [(Found::Files, true), (Found::Either, false)] {
        let mut history = history();
        let settled = history.settle(&after(7, several), crash(found), several);
        assert_eq!(settled.expect("as promised").0, 7);
        let again = history.settle(&after(5, several), crash(Found::Files), several);
        assert_eq!(again.is_err(), stays, "{found:?}");
    }
}

#[test]
fn an_old_step_must_be_there() {
    let mut history = History::new();
    history.tried(1);
    history.acknowledged(Instant::now(), 1, false);
    let later = Crash {
        when: Instant::now() + Duration::from_secs(2),
        found: Found::Files,
    };
    let settled = history.settle(&State::default(), later, several);
    assert!(settled.expect_err("lost").contains("old"));
}

#[test]
fn half_a_step_and_a_step_that_was_never_sent_are_refused() {
    for writes in [several, blind] {
        half_a_step_is_refused(writes);
        let settled = history().settle(&after(11, writes), crash(Found::Files), writes);
        settled.expect_err("never sent");
    }
}

fn half_a_step_is_refused(writes: fn(u64) -> Vec<Write>) {
    let whole = after(6, writes);
    for &key in whole.0.keys() {
        let mut half = whole.clone();
        let older = after(5, writes).0.get(&key).copied();
        match older {
            Some(step) if step == half.0[&key] => continue,
            Some(step) => drop(half.0.insert(key, step)),
            None => drop(half.0.remove(&key)),
        }
        let settled = history().settle(&half, crash(Found::Files), writes);
        settled.expect_err("half a step");
    }
}

#[test]
fn a_hole_is_refused() {
    for missing in 1..=10 {
        let mut state = State::default();
        for step in (1..=10).filter(|step| *step != missing) {
            state.apply(step, &one(step));
        }
        let traceless = (0..=10).any(|last| state == after(last, one));
        let settled = history().settle(&state, crash(Found::Files), one);
        assert_eq!(settled.is_ok(), traceless, "without step {missing}");
    }
}

/// What a recovery has found is there for ever, whatever its client was replied.
#[test]
fn what_was_recovered_does_not_vanish() {
    let mut history = history();
    let (last, _) = history
        .settle(&after(9, several), crash(Found::Files), several)
        .expect("as promised");
    assert_eq!(last, 9);
    let later = history.settle(&after(8, several), crash(Found::Files), several);
    assert!(later.expect_err("it vanished").contains("steps 9 to"));
}

/// What was found in the kernel only is there for ever when a synchronous client got a reply that says so.
#[test]
fn what_was_settled_does_not_vanish() {
    for promised in [false, true] {
        let mut history = history();
        let settled = history.settle(&after(9, several), crash(Found::Kernel), several);
        settled.expect("it has everything");
        if promised {
            history.promise(9);
        }
        let later = history.settle(&after(8, several), crash(Found::Files), several);
        assert_eq!(later.is_err(), promised);
        if let Ok((_, lost)) = later {
            assert_eq!(lost.steps, 1);
        }
    }
}

/// A step that was refused has changed nothing, and those after it have.
#[test]
fn a_refused_step_is_none() {
    for writes in [one, blind] {
        let mut history = history();
        history.refused(9);
        let mut state = after(8, writes);
        state.apply(10, &writes(10));
        assert_ne!(state, after(10, writes));
        let (last, _) = history
            .settle(&state, crash(Found::Files), writes)
            .expect("so it is");
        assert_eq!(last, 10);
    }
}
