//! The examples of docs/embedding.md, on packets made by hand: BPF_PROG_RUN,
//! attached to nothing.

use crate::common;

use std::thread;

use bpfdb::objects::EXAMPLES;
use bpfdb::{Engine, LogGateState, Options, Session, Status};
use libbpf_rs::{Object, ProgramInput};

const XDP_PASS: u32 = 2;
const TOTAL: &[u8] = b"packets";

/// The object, and the program that would be attached to an interface.
const STYLES: [(&str, &str); 2] = [
    ("count_direct", "count_direct"),
    ("count_by_continuation", "count_chain"),
];

fn load(engine: &Engine, name: &str) -> Object {
    let example = EXAMPLES.iter().find(|object| object.name == name);
    let object = common::open(engine, example.expect("embedded").bytes, name);
    object
        .load()
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// An Ethernet frame; an IPv4 packet inside, if there is a source.
fn packet(source: Option<[u8; 4]>) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    if let Some(address) = source {
        bytes[12..14].copy_from_slice(&[0x08, 0x00]);
        bytes[14] = 0x45;
        bytes[26..30].copy_from_slice(&address);
    }
    bytes
}

fn send(object: &Object, program: &str, source: Option<[u8; 4]>) {
    let program = object.progs_mut().find(|p| p.name() == program);
    let data = packet(source);
    let input = ProgramInput {
        data_in: Some(&data),
        ..Default::default()
    };
    let output = program.expect("program").test_run(input).expect("run");
    assert_eq!(output.return_value, XDP_PASS);
}

fn count(session: &mut Session, key: &[u8]) -> u64 {
    let value = session.get(key).expect("get");
    value.map_or(0, |v| {
        u64::from_ne_bytes(v.try_into().expect("eight bytes"))
    })
}

#[test]
fn packets_are_counted_by_source_and_in_all() {
    for (name, program) in STYLES {
        let engine = common::engine();
        let object = load(&engine, name);
        let mut session = engine.session().expect("session");
        let sources = [[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 1]];

        for source in sources.into_iter().cycle().take(300) {
            send(&object, program, Some(source));
        }
        send(&object, program, None);
        assert_eq!(count(&mut session, &[10, 0, 0, 1]), 200, "{name}");
        assert_eq!(count(&mut session, &[10, 0, 0, 2]), 100, "{name}");
        assert_eq!(count(&mut session, TOTAL), 300, "{name}");
    }
}

/// Whoever reads a snapshot finds that the sum is the total, at any time.
#[test]
fn counts_add_up_in_every_snapshot() {
    for (name, program) in STYLES {
        let engine = common::engine();
        let object = load(&engine, name);
        let mut session = engine.session().expect("session");

        thread::scope(|scope| {
            let sender = scope.spawn(|| {
                for i in 0..3000u32 {
                    send(&object, program, Some([10, 0, 1, 1 + (i % 2) as u8]));
                }
            });
            while !sender.is_finished() {
                session.begin_read_only().expect("begin");
                let sum = count(&mut session, &[10, 0, 1, 1]) + count(&mut session, &[10, 0, 1, 2]);
                assert_eq!(count(&mut session, TOTAL), sum, "{name}");
                session.commit().expect("commit");
            }
        });
        // A packet that met an Error, of which the example does not try all again, is not
        // counted: the reaper was in the session, or a snapshot kept a commit from ending.
        let counted = count(&mut session, TOTAL);
        let errors: u64 = engine
            .stats()
            .expect("stats")
            .counters
            .statuses
            .iter()
            .sum();
        assert!(
            counted <= 3000 && counted + errors >= 3000,
            "{name}: {counted}, {errors} errors"
        );
        assert!(counted > 2700, "{name}: {counted}, {errors} errors");
    }
}

/// A packet that meets a lock gives up, and leaves nothing half done.
#[test]
fn a_conflict_leaves_nothing_behind() {
    for (name, program) in STYLES {
        let engine = common::engine();
        let object = load(&engine, name);
        let mut session = engine.session().expect("session");

        session.begin().expect("begin");
        session.set(TOTAL, &7u64.to_ne_bytes()).expect("set");
        send(&object, program, Some([10, 0, 2, 1]));
        session.commit().expect("commit");
        assert_eq!(count(&mut session, &[10, 0, 2, 1]), 0, "{name}");
        assert_eq!(engine.stats().expect("stats").transactions, 0, "{name}");
        send(&object, program, Some([10, 0, 2, 1]));
        assert_eq!(count(&mut session, TOTAL), 8, "{name}");
    }
}

/// An embedding program gets that error too, and has nothing open afterwards.
#[test]
fn while_the_log_takes_no_writes_packets_are_not_counted() {
    for (name, program) in STYLES {
        let options = Options {
            log_ring: 1 << 20,
            ..common::options()
        };
        let engine = Engine::create(&options).expect("the engine starts");
        let log = engine.log().expect("the rings").expect("there is a log");
        let gate = log.gate().expect("the gate");
        let object = load(&engine, name);
        let mut session = engine.session().expect("session");
        send(&object, program, Some([10, 0, 3, 1]));
        for (state, told) in [
            (LogGateState::Closed, Status::LogClosed),
            (LogGateState::Held, Status::LogFull),
        ] {
            let refused = || engine.stats().expect("stats").counters.statuses[told.code() as usize];
            let before = refused();
            gate.set(state);
            send(&object, program, Some([10, 0, 3, 1]));
            assert!(refused() > before, "{name}: {told:?}");
            assert_eq!(count(&mut session, TOTAL), 1, "{name}: reads go on");
            let stats = engine.stats().expect("stats");
            assert_eq!(stats.transactions, 0, "{name}: it was rolled back");
        }
        gate.set(LogGateState::Open);
        send(&object, program, Some([10, 0, 3, 1]));
        assert_eq!(count(&mut session, TOTAL), 2, "{name}");
        assert_eq!(count(&mut session, &[10, 0, 3, 1]), 2, "{name}");
    }
}
