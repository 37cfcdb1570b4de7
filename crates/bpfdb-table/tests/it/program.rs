//! Programs of others ask a table that this process has open: the examples `ask_table.bpf.c` and `judge_by_table.bpf.c`. The
//! answers are those of the process, which does nothing for them.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb::objects::EXAMPLES;
use bpfdb_ring::Mapped;
use bpfdb_table::{
    Aggregate, Bounds, By, ChainOptions, Chains, Error, Field, Reader, Source, Table, Type,
};
use bpfdb_tests::random::Random;
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, OpenObject, ProgramInput};

use crate::common::{Folder, Model, aggregate, build, key, options, random_ranges, random_tables};

const PROGRAMS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(60);

// include/bpfdb/table.h
const GET: u32 = 0;
const COUNT: u32 = 2;
const FIELDS: u32 = 3;
const NO_END: u32 = u32::MAX;
const REQUEST: usize = 24 + 2 * 512;
const ANSWER: usize = 56 + 1024;
const EXCHANGE: usize = REQUEST + ANSWER + 8;
const FOUND: u32 = 0;
const ABSENT: u32 = 1;
const DAMAGED: u32 = 2;
const FAILED: u32 = 3;
const PENDING: u32 = 5;
const LOST: u32 = 6;

fn start(table: &Table, pool: usize) -> Chains<'_> {
    let options = ChainOptions {
        pool,
        programs: PROGRAMS,
        ..ChainOptions::default()
    };
    Chains::start(table, &options).expect("chains run")
}

fn open(name: &str) -> OpenObject {
    let example = EXAMPLES.iter().find(|object| object.name == name);
    let example = example.expect("embedded").bytes;
    let mut builder = ObjectBuilder::default();
    builder.open_memory(example).expect("opened")
}

fn load(name: &str, chains: &Chains<'_>) -> Object {
    let mut object = open(name);
    chains.share_with(&mut object).expect("shared");
    object.load().expect("it loads")
}

/// A question as `struct bpfdb_table_request` has it.
fn request(operation: u32, bounds: Bounds<'_>, field: Option<Field>) -> Vec<u8> {
    let types = [
        Type::U8,
        Type::U16,
        Type::U32,
        Type::U64,
        Type::I8,
        Type::I16,
        Type::I32,
        Type::I64,
        Type::Text,
    ];
    let number = |kind: Type| {
        types
            .iter()
            .position(|known| *known == kind)
            .expect("known") as u32
    };
    let mut bytes = Vec::new();
    for word in [
        operation,
        field.map_or(0, |field| field.offset),
        field.map_or(0, |field| number(field.kind)),
        bounds.from.len() as u32,
        bounds.to.map_or(NO_END, |to| to.len() as u32),
        0,
    ] {
        bytes.extend(word.to_le_bytes());
    }
    for key in [bounds.from, bounds.to.unwrap_or_default()] {
        let mut room = [0; 512];
        room[..key.len()].copy_from_slice(key);
        bytes.extend(room);
    }
    bytes
}

/// The program `ask_table`.
struct Asker<'o>(&'o Object);

impl Asker<'_> {
    fn exchanges(&self) -> libbpf_rs::Map<'_> {
        let mut maps = self.0.maps();
        maps.find(|map| map.name() == "exchanges").expect("the map")
    }

    fn run(&self, program: &str, place: u32) -> u32 {
        let program = self.0.progs_mut().find(|known| known.name() == program);
        let mut place = place.to_le_bytes();
        let input = ProgramInput {
            context_in: Some(&mut place),
            ..ProgramInput::default()
        };
        program
            .expect("there")
            .test_run(input)
            .expect("it runs")
            .return_value
    }

    /// Is it asked?
    fn ask(&self, place: u32, request: &[u8]) -> bool {
        let mut exchange = request.to_vec();
        exchange.resize(EXCHANGE, 0);
        let maps = self.exchanges();
        maps.update(&place.to_le_bytes(), &exchange, MapFlags::ANY)
            .expect("written");
        self.run("ask_table", place) == 1
    }

    fn take(&self, place: u32) -> u32 {
        self.run("take_answer", place)
    }

    /// The outcome, if it is not there yet, too; and the answer.
    fn wait(&self, place: u32) -> (u32, Vec<u8>) {
        let begun = Instant::now();
        loop {
            let outcome = self.take(place);
            if outcome != PENDING {
                let exchange = self.exchanges().lookup(&place.to_le_bytes(), MapFlags::ANY);
                let exchange = exchange.expect("read").expect("there");
                return (outcome, exchange[REQUEST..REQUEST + ANSWER].to_vec());
            }
            assert!(begun.elapsed() < PATIENCE, "no answer");
            thread::sleep(Duration::from_micros(100));
        }
    }

    fn answer(&self, request: &[u8]) -> (u32, Vec<u8>) {
        assert!(self.ask(0, request), "asked");
        self.wait(0)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let bounds = Bounds {
            from: key,
            to: None,
        };
        let (outcome, answer) = self.answer(&request(GET, bounds, None));
        value(outcome, &answer)
    }
}

fn word(answer: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(answer[at..at + 8].try_into().expect("a word"))
}

fn value(outcome: u32, answer: &[u8]) -> Option<Vec<u8>> {
    let len = word(answer, 0) as u32 as usize;
    match outcome {
        FOUND => Some(answer[56..56 + len].to_vec()),
        ABSENT => None,
        other => panic!("outcome {other}"),
    }
}

fn found(answer: &[u8], field: Option<Field>) -> Aggregate {
    let fields = word(answer, 16);
    let sum = u128::from(word(answer, 32)) << 64 | u128::from(word(answer, 24));
    let is_unsigned = field
        .is_some_and(|field| matches!(field.kind, Type::U8 | Type::U16 | Type::U32 | Type::U64));
    let number = |at: usize| {
        let word = word(answer, at);
        match is_unsigned {
            true => i128::from(word),
            false => i128::from(word as i64),
        }
    };
    Aggregate {
        entries: word(answer, 8),
        fields,
        sum: sum as i128,
        least: (fields > 0).then(|| number(40)),
        greatest: (fields > 0).then(|| number(48)),
    }
}

#[test]
fn programs_are_answered_as_the_process_is() {
    random_tables(53, |random, model, block_size, fanout| {
        let folder = Folder::new();
        let table = build(&folder.path(), model, &options(block_size, fanout));
        let pool = [0, 1 << 20][random.below(2)];
        let chains = start(&table, pool);
        let object = load("ask_table", &chains);
        let asker = Asker(&object);
        let drawn: Vec<Vec<u8>> = (0..20).map(|_| key(random)).collect();
        for key in model.keys().take(50).chain(&drawn) {
            assert_eq!(
                asker.get(key).as_ref(),
                model.get(key),
                "{}",
                key.escape_ascii()
            );
        }
        random_ranges(random, model, 20, |random, bounds, _| {
            let field = ["0:text", "0:u8", "0:i8", "1:u16", "0:i64", "0:u64"][random.below(6)];
            let field = field.parse().expect("a field");
            for (operation, field) in [(COUNT, None), (FIELDS, Some(field))] {
                let (outcome, answer) = asker.answer(&request(operation, bounds, field));
                assert_eq!(outcome, FOUND);
                let expected = aggregate(model, bounds, field);
                assert_eq!(found(&answer, field), expected, "{bounds:?} {field:?}");
            }
        });
        assert_eq!(
            chains.figures(),
            Default::default(),
            "the process has done nothing"
        );
    });
}

fn table_of(folder: &Folder, count: u32) -> Table {
    let entry = |number: u32| (number.to_be_bytes().to_vec(), number.to_le_bytes().to_vec());
    let model: Model = (0..count).map(entry).collect();
    build(&folder.path(), &model, &options(512, 4))
}

fn of_key(number: u32) -> Vec<u8> {
    let from = &number.to_be_bytes();
    request(GET, Bounds { from, to: None }, None)
}

/// If all blocks are in the pool.
#[test]
fn the_answer_of_the_pool_is_there_at_once() {
    let folder = Folder::new();
    let table = table_of(&folder, 5000);
    let mut chains = start(&table, 8 << 20);
    let object = load("ask_table", &chains);
    let asker = Asker(&object);
    for number in 0..5000_u32 {
        chains.get(&number.to_be_bytes()).expect("read");
    }
    for number in (0..5000).step_by(7) {
        assert!(asker.ask(0, &of_key(number)));
        let (outcome, answer) = (
            asker.take(0),
            asker.exchanges().lookup(&[0; 4], MapFlags::ANY),
        );
        assert_eq!(outcome, FOUND, "at once");
        let answer = answer.expect("read").expect("there");
        assert_eq!(
            value(outcome, &answer[REQUEST..]),
            Some(number.to_le_bytes().to_vec())
        );
    }
}

#[test]
fn as_many_as_there_are_chains_for_are_asked_at_the_same_time() {
    let folder = Folder::new();
    let table = table_of(&folder, 5000);
    let mut chains = start(&table, 0);
    let object = load("ask_table", &chains);
    let asker = Asker(&object);
    let mut random = Random::new(1);
    for _ in 0..50 {
        let numbers: Vec<u32> = (0..PROGRAMS).map(|_| random.below(6000) as u32).collect();
        for (place, number) in numbers.iter().enumerate() {
            assert!(asker.ask(place as u32, &of_key(*number)));
        }
        // No more, until one is taken.
        assert!(!asker.ask(63, &of_key(1)), "all are taken");
        assert_eq!(asker.take(63), LOST);
        // The process has its own.
        let keys: Vec<[u8; 4]> = (0..100_u32).map(u32::to_be_bytes).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        assert!(
            chains
                .get_many(&keys)
                .expect("read")
                .iter()
                .all(Option::is_some)
        );
        for (place, number) in numbers.iter().enumerate() {
            let (outcome, answer) = asker.wait(place as u32);
            let expected = (*number < 5000).then(|| number.to_le_bytes().to_vec());
            assert_eq!(value(outcome, &answer), expected);
            assert_eq!(asker.take(place as u32), LOST, "taken once");
        }
    }
    assert_eq!(chains.figures().by_process, 0);
}

/// Programs on several processors take chains from each other, and each gets the answer to its own question.
#[test]
fn programs_that_run_at_the_same_time_have_chains_of_their_own() {
    const THREADS: u32 = 6;
    let folder = Folder::new();
    let table = table_of(&folder, 5000);
    // Some are answered from the pool, some not.
    let mut chains = start(&table, 100 * 512);
    let object = load("ask_table", &chains);
    let asked: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|place| {
                let asker = Asker(&object);
                scope.spawn(move || {
                    let mut random = Random::new(place.into());
                    let mut asked = 0;
                    for _ in 0..400 {
                        let number = random.below(6000) as u32;
                        if !asker.ask(place, &of_key(number)) {
                            continue;
                        }
                        asked += 1;
                        let (outcome, answer) = asker.wait(place);
                        let expected = (number < 5000).then(|| number.to_le_bytes().to_vec());
                        assert_eq!(value(outcome, &answer), expected);
                    }
                    asked
                })
            })
            .collect();
        for _ in 0..200 {
            assert!(chains.get(&17_u32.to_be_bytes()).expect("read").is_some());
        }
        threads
            .into_iter()
            .map(|thread| thread.join().expect("well"))
            .sum()
    });
    assert_eq!(asked, u64::from(THREADS) * 400, "there are chains enough");
    assert_eq!(chains.figures().by_process, 0);
    // All are free again.
    let asker = Asker(&object);
    assert!((0..PROGRAMS as u32).all(|place| asker.ask(place, &of_key(1))));
}

/// io_uring's thread sleeps when it has had nothing to do for a while: the bell wakes it.
#[test]
fn a_question_that_comes_while_all_is_asleep_is_answered() {
    let folder = Folder::new();
    let table = table_of(&folder, 1000);
    let chains = start(&table, 0);
    let object = load("ask_table", &chains);
    let asker = Asker(&object);
    for number in 0..10_u32 {
        thread::sleep(Duration::from_millis(100));
        assert_eq!(
            asker.get(&number.to_be_bytes()),
            Some(number.to_le_bytes().to_vec())
        );
    }
}

#[test]
fn what_means_nothing_is_not_asked() {
    let folder = Folder::new();
    let table = table_of(&folder, 10);
    let chains = start(&table, 0);
    let object = load("ask_table", &chains);
    let asker = Asker(&object);
    let right = of_key(1);
    for (at, word) in [(0, 1_u32), (0, 4), (8, 9), (12, 513), (16, 513)] {
        let mut wrong = right.clone();
        wrong[at..at + 4].copy_from_slice(&word.to_le_bytes());
        assert!(!asker.ask(0, &wrong), "{word} at byte {at}");
    }
    for place in 1..20 {
        // Never asked.
        assert_eq!(asker.take(place), LOST);
    }
    // A chain of the process is no program's.
    let mut exchange = vec![0; EXCHANGE];
    for token in 0..300_u64 {
        exchange[REQUEST + ANSWER..].copy_from_slice(&token.to_le_bytes());
        let place = 5_u32.to_le_bytes();
        asker
            .exchanges()
            .update(&place, &exchange, MapFlags::ANY)
            .expect("written");
        assert_eq!(asker.take(5), LOST, "token {token}");
    }
    assert_eq!(
        asker.get(&1_u32.to_be_bytes()),
        Some(1_u32.to_le_bytes().to_vec())
    );
}

#[test]
fn a_damaged_block_is_no_answer() {
    use std::os::unix::fs::FileExt;
    let folder = Folder::new();
    let table = table_of(&folder, 1000);
    let chains = start(&table, 0);
    let object = load("ask_table", &chains);
    let asker = Asker(&object);
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(folder.path())
        .expect("opened");
    file.write_all_at(b"\xff", 512 + 200).expect("written");
    let (outcome, _) = asker.answer(&of_key(0));
    assert_eq!(outcome, DAMAGED);
    let all = request(COUNT, Bounds::default(), None);
    assert_eq!(asker.answer(&all).0, DAMAGED);
    assert_eq!(
        asker.get(&999_u32.to_be_bytes()),
        Some(999_u32.to_le_bytes().to_vec())
    );
}

#[test]
fn without_the_process_nothing_is_waited_for() {
    let folder = Folder::new();
    let table = table_of(&folder, 1000);
    let chains = start(&table, 0);
    let object = load("ask_table", &chains);
    let asker = Asker(&object);
    assert!(asker.get(&1_u32.to_be_bytes()).is_some());
    drop(chains);
    assert!(asker.ask(0, &of_key(1)));
    let (outcome, _) = asker.wait(0);
    assert_eq!(outcome, FAILED);
    // Its chain is free again.
    for place in 0..PROGRAMS as u32 {
        assert!(asker.ask(place, &of_key(1)));
    }
    assert!(!asker.ask(20, &of_key(1)));
}

/// As if the program were there all the time: no completion is heard of.
#[test]
fn who_reads_is_known_when_the_kernel_does_not_any_more() {
    // include/bpfdb/ring.h: `busy`.
    const BUSY: usize = 65_536 + 256 * 64 + 6 * 4;
    let folder = Folder::new();
    let table = table_of(&folder, 1000);
    let options = ChainOptions {
        pool: 0,
        programs: 1,
        ..ChainOptions::default()
    };
    let (mut source, _) = Source::open(&table, By::Kernel, &options).expect("chains run");
    let mut object = open("ask_table");
    match &source {
        Source::Kernel(chains) => chains.share_with(&mut object).expect("shared"),
        Source::Process { .. } => panic!("the kernel was asked for"),
    }
    let object = object.load().expect("it loads");
    let mut maps = object.maps();
    let map = maps
        .find(|map| map.name() == ".bss.table")
        .expect("the map");
    let memory = Mapped::new(map.as_fd(), BUSY.next_multiple_of(4096)).expect("mapped");
    // SAFETY: within the mapping, aligned; the program uses atomic instructions.
    let busy = unsafe { AtomicU32::from_ptr(memory.at(BUSY)) };
    let get = |source: &mut Source<'_>| {
        let found = source.get(&7_u32.to_be_bytes()).expect("read");
        assert_eq!(found, Some(7_u32.to_le_bytes().to_vec()));
    };
    get(&mut source);
    assert!(source.is_kernel());
    busy.store(1, Ordering::SeqCst);
    get(&mut source);
    assert!(!source.is_kernel());
    assert_eq!(source.answered().by_process, 1);
}

#[test]
fn only_what_was_kept_for_programs_is_shared() {
    let folder = Folder::new();
    let table = table_of(&folder, 10);
    let chains = Chains::start(&table, &ChainOptions::default()).expect("chains run");
    let refused = chains.share_with(&mut open("ask_table"));
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    let chains = start(&table, 0);
    let refused = chains.share_with(&mut open("count_direct"));
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
}

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;

/// What becomes of an IPv4 packet from this address.
fn send(object: &Object, source: [u8; 4]) -> u32 {
    let mut packet = vec![0; 64];
    packet[12..14].copy_from_slice(&[0x08, 0x00]);
    packet[14] = 0x45;
    packet[26..30].copy_from_slice(&source);
    let mut programs = object.progs_mut();
    let program = programs.find(|program| program.name() == "judge_by_table");
    let input = ProgramInput {
        data_in: Some(&packet),
        ..ProgramInput::default()
    };
    program
        .expect("there")
        .test_run(input)
        .expect("it runs")
        .return_value
}

/// A table that denies each third source of 3,000.
fn verdicts(folder: &Folder) -> Table {
    let model: Model = (0..3000_u32)
        .map(|number| {
            let verdict: &[u8] = if number % 3 == 0 { b"deny" } else { b"allow" };
            (
                (0x0a00_0000 + number).to_be_bytes().to_vec(),
                verdict.to_vec(),
            )
        })
        .collect();
    build(&folder.path(), &model, &options(512, 0))
}

fn source(number: u32) -> [u8; 4] {
    (0x0a00_0000 + number).to_be_bytes()
}

/// Nobody comes back for their answers, which would be kept for ten seconds.
#[test]
fn sources_that_send_one_packet_hold_up_no_other() {
    let folder = Folder::new();
    let table = verdicts(&folder);
    let chains = start(&table, 0);
    let object = load("judge_by_table", &chains);
    let mut strangers = 1..3000;
    let begun = Instant::now();
    for number in (0..300).step_by(30) {
        while send(&object, source(number)) != XDP_DROP {
            assert!(begun.elapsed() < Duration::from_secs(8), "{number} waits");
            for _ in 0..PROGRAMS {
                send(&object, source(3000 + strangers.next().unwrap_or(1)));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn packets_are_judged_by_a_table() {
    let folder = Folder::new();
    let table = verdicts(&folder);
    let chains = start(&table, 0);
    let object = load("judge_by_table", &chains);
    // The first packet has asked, and passes; those behind the answer do as it says.
    for number in (0..3000).step_by(30) {
        assert_eq!(send(&object, source(number)), XDP_PASS);
        let begun = Instant::now();
        while send(&object, source(number)) != XDP_DROP {
            assert!(begun.elapsed() < PATIENCE, "no verdict");
            thread::sleep(Duration::from_micros(100));
        }
    }
    for number in (1..3000).step_by(30) {
        for _ in 0..20 {
            assert_eq!(send(&object, source(number)), XDP_PASS);
        }
    }
    assert_eq!(send(&object, [9, 9, 9, 9]), XDP_PASS);
    assert_eq!(
        Reader::new(&table).get(&source(0)).expect("read"),
        Some(b"deny".to_vec())
    );
    assert_eq!(
        chains.figures(),
        Default::default(),
        "the process has done nothing"
    );
}
