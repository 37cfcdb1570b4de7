//! Calls that interrupt others, and frames that are another task's.

use std::time::{Duration, Instant};

use bpfdb::abi::{BPFDB_FRAME_CLAIMED, BPFDB_FRAME_FREE, BPFDB_FRAME_READY, BPFDB_FRAME_RUNNING};

use super::{Calls, number};

/// With some rounds of a loop: a timer shall come in the midst of it.
const SLOW: &str = "local n = 0 for i = 1, 500 do n = n + i end
    redis.call('INCRBY', keys[1], args[1]) return redis.call('INCRBY', keys[2], args[1])";
const PATIENCE: Duration = Duration::from_secs(60);
/// Calls that interrupted a call.
const WANTED: u64 = 500;

/// struct tick of bpf/tests/calls.bpf.c.
struct Tick([u64; 6]);

impl Tick {
    const NOBODY: [u64; 6] = [0; 6];

    fn of(calls: &Calls) -> Self {
        let bytes = calls.take("calls_tick", 0);
        let mut words = bytes.chunks_exact(8).map(|word| {
            let word = word.try_into().expect("eight bytes");
            u64::from_ne_bytes(word)
        });
        Self(std::array::from_fn(|_| words.next().expect("six words")))
    }

    fn put(calls: &Calls, words: [u64; 6]) {
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        calls.put("calls_tick", &bytes);
    }
}

/// A timer interrupts a call, and calls the same procedure in a session of its own: each call of
/// both is executed once or not at all, and shows which.
#[test]
fn a_call_may_interrupt_a_call() {
    let mut calls = Calls::new(SLOW);
    // SAFETY: takes no pointers.
    let thread = unsafe { libc::gettid() };
    let own = calls.sessions[1].into();
    let interrupt = calls
        .object
        .progs_mut()
        .find(|program| program.name() == "calls_interrupt")
        .expect("it is there")
        .attach_raw_tracepoint("hrtimer_expire_entry")
        .expect("it is attached");
    Tick::put(&calls, [thread as u64, own, 0, 0, 0, 0]);
    let (mut added, mut refused) = (0, 0);
    let begun = Instant::now();
    while Tick::of(&calls).0[5] < WANTED && begun.elapsed() < PATIENCE {
        for _ in 0..200 {
            match calls.run("calls_add", &[]) {
                0 => added += 1,
                outcome if outcome < 64 => refused += 1,
                outcome => panic!("outcome {outcome}"),
            }
        }
    }
    drop(interrupt);
    let Tick([_, _, ticks, ticks_refused, other, within]) = Tick::of(&calls);
    Tick::put(&calls, Tick::NOBODY);
    println!(
        "{added} calls, {refused} refused; {ticks} in interrupts, {ticks_refused} refused, {within} within a call"
    );
    assert!(within >= WANTED, "{within} calls interrupted another one");
    assert_eq!(other, 0, "outcome of a call in an interrupt");
    let mut session = calls.session();
    assert_eq!(number(&mut session, b"task"), added);
    assert_eq!(number(&mut session, b"tick"), ticks);
    assert_eq!(number(&mut session, b"both"), added + ticks);
    calls.assert_all_frames_are_free();
    calls.published.withdraw(&[super::ADD]).expect("withdrawn");
}

/// As if the task had been preempted between storing the number of its frame and entering: only
/// a frame that is ready, of this task, is executed, and any other stays as it is.
#[test]
fn a_frame_is_entered_for_its_task_only() {
    let calls = Calls::new(SLOW);
    let enter = |state: u32, of_another: u64| calls.run("calls_enter", &[state.into(), of_another]);
    assert_eq!(enter(BPFDB_FRAME_READY, 0), 1);
    assert_eq!(enter(BPFDB_FRAME_READY, 1), 0);
    for state in [BPFDB_FRAME_FREE, BPFDB_FRAME_CLAIMED, BPFDB_FRAME_RUNNING] {
        assert_eq!(enter(state, 0), 0, "in state {state}");
    }
    assert_eq!(number(&mut calls.session(), b"task"), 1);
    calls.assert_all_frames_are_free();
}
