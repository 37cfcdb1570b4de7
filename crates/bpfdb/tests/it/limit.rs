//! The memory limit, changed while the engine runs.

use std::thread;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Options, SEGMENT_SIZE, Session, Status};

const START: u64 = 4 * SEGMENT_SIZE;
const MOST: u64 = 12 * SEGMENT_SIZE;
const VALUE: usize = 4000;
const PATIENCE: Duration = Duration::from_secs(20);

fn engine() -> Engine {
    Engine::create(&Options {
        memory_limit: START,
        memory_limit_max: MOST,
        ..Options::default()
    })
    .expect("the engine starts")
}

fn key(number: usize) -> Vec<u8> {
    format!("limit:{number:08}").into_bytes()
}

/// Sets one key after the other, from `first` on, until there is no memory: the first that
/// could not be set.
fn fill(session: &mut Session, first: usize) -> usize {
    let value = [7; VALUE];
    (first..)
        .find(|&number| match session.set(&key(number), &value) {
            Ok(()) => false,
            Err(status) => {
                assert_eq!(status, Status::OutOfMemory);
                true
            }
        })
        .expect("there is a limit")
}

fn used(engine: &Engine) -> u64 {
    let stats = engine.stats().expect("figures");
    (stats.pages_taken - stats.pages_free) * u64::from(bpfdb::abi::BPFDB_PAGE_SIZE)
}

#[test]
fn it_can_be_raised_and_lowered() {
    let engine = engine();
    let mut session = engine.session().expect("session");
    assert_eq!(engine.memory_limit(), START);
    assert_eq!(engine.memory_limit_max(), MOST);
    let full = fill(&mut session, 0);
    assert!(used(&engine) <= START);

    // More is taken at once.
    engine.set_memory_limit(MOST - 1).expect("raised");
    assert_eq!(engine.memory_limit(), MOST);
    session.set(&key(full), &[7; VALUE]).expect("there is room");
    let fuller = fill(&mut session, full);
    assert!(fuller > 2 * full, "{full} and then {fuller}");
    let most = used(&engine);
    assert!(most > 2 * START && most <= MOST, "{most}");

    // Less than is in use: nothing is lost, nothing is added.
    engine.set_memory_limit(START).expect("lowered");
    assert_eq!(
        session.set(&key(fuller), &[7; VALUE]),
        Err(Status::OutOfMemory)
    );
    assert_eq!(session.get(&key(0)), Ok(Some(vec![7; VALUE])));
    for number in full / 2..fuller {
        assert!(session.delete(&key(number)).expect("deleted"));
    }
    let start = Instant::now();
    while used(&engine) > START * 3 / 4 {
        assert!(start.elapsed() < PATIENCE, "{} are in use", used(&engine));
        thread::sleep(Duration::from_millis(5));
    }
    let again = fill(&mut session, full / 2);
    assert!(used(&engine) <= START, "{}", used(&engine));
    // The index has grown, and the classes keep some pages.
    assert!(again > full * 3 / 4, "{full} at first, {again} now");
}

#[test]
fn it_has_bounds() {
    let engine = engine();
    assert!(engine.set_memory_limit(MOST + 1).is_err());
    engine.set_memory_limit(0).expect("the least");
    assert_eq!(engine.memory_limit(), 2 * SEGMENT_SIZE);
    let stats = engine.stats().expect("figures");
    assert_eq!(stats.segments_max, 2);
    // Who does not ask for it has no room for more.
    let fixed = Engine::create(&Options {
        memory_limit: START,
        ..Options::default()
    });
    let fixed = fixed.expect("the engine starts");
    assert_eq!(fixed.memory_limit_max(), START);
    assert!(fixed.set_memory_limit(START + 1).is_err());
}
