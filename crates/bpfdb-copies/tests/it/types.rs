//! Hashes, lists, sets and sorted sets in every form, and from an engine to another one.

use crate::it::common;

use std::collections::BTreeMap;

use bpfdb::{Engine, ValueType};
use bpfdb_copies::{Error, Existing, Format, Snapshot};
use bpfdb_values::limits::{self, Kind};
use bpfdb_values::run::{self, Run};
use common::engine::{dumped, engine, file, load};
use common::seal::seal;
use common::{Collected, FORMS, Typed, collect_typed, entries, noise, written_typed};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

/// A collection of these entries, in their order.
fn collection(kind: Kind, entries: &[(Vec<u8>, Vec<u8>)]) -> Typed {
    let types = [
        (Kind::Hash, ValueType::HASH),
        (Kind::List, ValueType::LIST),
        (Kind::Set, ValueType::SET),
        (Kind::SortedSet, ValueType::SORTED_SET),
    ];
    let found = types.into_iter().find(|&(one, _)| one == kind);
    let (_, value_type) = found.expect("a type");
    let entries = entries.iter().map(|(key, value)| (&key[..], &value[..]));
    let history = limits::history(kind, entries.clone());
    (value_type, run::write(entries, history), None)
}

fn score(score: f64) -> Vec<u8> {
    run::sortable(score).to_le_bytes().to_vec()
}

/// Some of each type: small, many entries, long entries, text and bytes.
fn samples() -> BTreeMap<Vec<u8>, Typed> {
    let long = |len: usize| (noise(len, 3), Vec::new());
    let text = |text: &str| (text.as_bytes().to_vec(), Vec::new());
    let hash = |count: usize, len: usize| -> Vec<_> {
        let fields = (0..count).map(|n| format!("field {n}").into_bytes());
        fields.map(|field| (field, vec![b'v'; len])).collect()
    };
    let sorted = |count: u32| -> Vec<_> {
        let members =
            (0..count).map(|n| (format!("{n:05}").into_bytes(), score(f64::from(n) / 7.0)));
        members.collect()
    };
    let mut ends = vec![(b"low".to_vec(), score(f64::NEG_INFINITY))];
    ends.push((b"middle".to_vec(), score(0.1)));
    ends.push((vec![0xff], score(f64::MAX)));
    ends.push((b"z".to_vec(), score(f64::INFINITY)));
    let mut with_long = hash(3, 5);
    with_long.push((noise(300_000, 5), noise(700_000, 6)));
    with_long.push((b"only the value".to_vec(), vec![b'v'; 300_000]));
    with_long.extend(hash(5, 3).split_off(3));
    let mut sorted_long = vec![(b"a".to_vec(), score(1.0))];
    sorted_long.push((vec![b'm'; 262_144], score(2.5)));
    sorted_long.push((vec![b'n'; 300_000], score(f64::INFINITY)));
    let numbers = (0..2000).map(|n| (n.to_string().into_bytes(), Vec::new()));
    let all = [
        ("hash", Kind::Hash, hash(3, 10)),
        ("large hash", Kind::Hash, hash(60_000, 10)),
        ("hash with long ones", Kind::Hash, with_long),
        (
            "list",
            Kind::List,
            vec![text("a"), text("a"), text(""), text("1"), long(20)],
        ),
        (
            "long list",
            Kind::List,
            vec![
                long(5),
                text("a"),
                long(262_137),
                long(2_000_000),
                text("b"),
            ],
        ),
        (
            "numbers",
            Kind::Set,
            vec![text("1"), text("2"), text("70000")],
        ),
        ("many numbers", Kind::Set, numbers.collect()),
        (
            "set",
            Kind::Set,
            vec![text("a"), text("1"), text("line\nline"), text("\u{1f980}")],
        ),
        ("sorted", Kind::SortedSet, ends),
        ("large sorted", Kind::SortedSet, sorted(50_000)),
        ("sorted with long ones", Kind::SortedSet, sorted_long),
    ];
    let mut samples = BTreeMap::new();
    for (number, (name, kind, entries)) in all.into_iter().enumerate() {
        let (value_type, run, _) = collection(kind, &entries);
        let expires_at = (number % 3 == 0).then_some(4_000_000_000_000 + number as u64);
        samples.insert(name.as_bytes().to_vec(), (value_type, run, expires_at));
    }
    let string = (ValueType::STRING, b"value".to_vec(), None);
    samples.insert(b"string".to_vec(), string);
    samples
}

#[test]
fn collections_come_back() {
    let data = samples();
    for form in FORMS {
        for part in [usize::MAX, 1000] {
            let bytes = written_typed(form, &data, part);
            let (read, contents) = collect_typed(&bytes).expect("right");
            assert!(read.keys().eq(data.keys()), "{form:?}");
            for (name, value) in &data {
                // A file of Redis has the numbers of a set in their own order.
                assert!(read[name] == *value, "{form:?}, {}", name.escape_ascii());
            }
            assert_eq!(contents.keys, data.len() as u64);
            let lens = data.values().map(|(_, value, _)| value.len() as u64);
            assert_eq!(contents.bytes, lens.sum::<u64>());
        }
    }
}

/// Lines as docs/formats/dump.md has them.
#[test]
fn lines_are_readable() {
    let element = |text: &str| (text.as_bytes().to_vec(), Vec::new());
    let member = |text: &str, number| (text.as_bytes().to_vec(), score(number));
    let bytes = |bytes: &[u8]| (bytes.to_vec(), Vec::new());
    let (kind, hash, _) = collection(Kind::Hash, &[(b"f".to_vec(), b"v".to_vec())]);
    let data = BTreeMap::from([
        (b"a".to_vec(), (kind, hash, Some(4_000_000_000_000))),
        (
            b"b".to_vec(),
            collection(Kind::List, &[element("x"), element("\"")]),
        ),
        (
            b"c".to_vec(),
            collection(Kind::Set, &[element("x"), bytes(&[0xff])]),
        ),
        (
            b"d".to_vec(),
            collection(
                Kind::SortedSet,
                &[
                    member("l", f64::NEG_INFINITY),
                    member("m", -1.0),
                    member("n", 1.5),
                    member("o", f64::INFINITY),
                ],
            ),
        ),
    ]);
    let text = String::from_utf8(written_typed(Format::Jsonl, &data, usize::MAX)).expect("text");
    let lines: Vec<&str> = text.lines().skip(1).take(4).collect();
    let wanted = [
        r#"{"key":"a","hash":[["f","v"]],"expires":4000000000000}"#,
        r#"{"key":"b","list":["x","\""]}"#,
        r#"{"key":"c","set64":["eA==","/w=="]}"#,
        r#"{"key":"d","zset":[["l","-inf"],["m",-1],["n",1.5],["o","inf"]]}"#,
    ];
    assert_eq!(lines, wanted);
}

/// Each is nearly as long as a line may be.
#[test]
fn no_line_is_longer_than_the_format_says() {
    let name = vec![1; 512];
    let elements = |count: usize, len: usize| vec![(vec![1; len], Vec::new()); count];
    for entries in [
        elements(29_127, 1),
        elements(29_128, 1),
        elements(100_000, 0),
        elements(3, 262_136),
    ] {
        let data = BTreeMap::from([(name.clone(), collection(Kind::List, &entries))]);
        let bytes = written_typed(Format::Jsonl, &data, usize::MAX);
        let lines = bytes
            .split_inclusive(|&byte| byte == b'\n')
            .map(<[u8]>::len);
        assert!(lines.max() <= Some(1_581_056));
        assert!(collect_typed(&bytes).expect("right").0 == data);
    }
}

/// Lines that are of a copy, in a place where they cannot be.
#[test]
fn lines_that_are_not_in_their_place() {
    let first = r#"{"bpfdb-dump":2,"time":1,"timestamp":1,"keys":1,"expiring":0}"#;
    let copy = |lines: &[&str]| {
        let end = r#"{"end":{"keys":0,"checksum":""}}"#;
        let lines = [&[first][..], lines, &[end, ""]].concat();
        let mut bytes = lines.join("\n").into_bytes();
        seal(&mut bytes);
        collect_typed(&bytes)
    };
    let two = r#"{"key":"a","type":"list","entries":2}"#;
    let (read, _) = copy(&[
        two,
        r#"{"list":["x"]}"#,
        r#"{"lengths":[2]}"#,
        r#"{"part":"yz"}"#,
    ])
    .expect("right");
    assert_eq!(
        entries(&read[&b"a"[..]].1),
        [(b"x".to_vec(), vec![]), (b"yz".to_vec(), vec![])]
    );
    for lines in [
        &[r#"{"key":"a","list":[]}"#][..],
        &[r#"{"key":"a","set":["x","x"]}"#],
        &[r#"{"key":"a","hash":[["x","1"],["x","2"]]}"#],
        &[two],
        &[two, r#"{"list":["x"]}"#],
        &[two, r#"{"list":["x","y","z"]}"#],
        &[two, r#"{"set":["x","y"]}"#],
        &[two, r#"{"part":"x"}"#],
        &[two, r#"{"lengths":[1,1]}"#, r#"{"part":"xy"}"#],
        &[two, r#"{"lengths":[1],"score":1}"#, r#"{"part":"x"}"#],
        &[two, r#"{"lengths":[0]}"#],
        &[two, r#"{"lengths":[1]}"#, r#"{"part":"xy"}"#],
        &[two, r#"{"lengths":[2]}"#, r#"{"list":["x"]}"#],
        &[two, r#"{"lengths":[536870913]}"#],
        &[two, r#"{"key":"b","value":"x"}"#],
        &[two, r#"{"list":["x","y"]}"#, r#"{"list":["z"]}"#],
        &[r#"{"key":"a","type":"list","entries":0}"#],
        &[r#"{"list":["x"]}"#],
        &[r#"{"lengths":[1]}"#],
    ] {
        let outcome = copy(lines);
        assert!(outcome.is_err(), "{lines:?}");
    }
}

/// A file in the binary form may have any bytes and the checksums of these.
#[test]
fn runs_that_no_engine_keeps_are_refused() {
    let twice = vec![
        (b"a".to_vec(), b"1".to_vec()),
        (b"a".to_vec(), b"2".to_vec()),
    ];
    let (_, run, _) = collection(Kind::List, &[(b"a".to_vec(), Vec::new())]);
    let mut cut = run.clone();
    cut.pop();
    for (kind, value) in [
        (ValueType::HASH, collection(Kind::Hash, &twice).1),
        (ValueType::SET, collection(Kind::Hash, &twice).1),
        (ValueType::SORTED_SET, run.clone()),
        (ValueType::LIST, cut),
        (ValueType::LIST, b"x".to_vec()),
        (ValueType::TEST, run),
    ] {
        let data = BTreeMap::from([(b"k".to_vec(), (kind, value, None))]);
        let outcome = collect_typed(&written_typed(Format::Binary, &data, usize::MAX));
        assert!(matches!(outcome, Err(Error::Damaged { .. })), "{outcome:?}");
    }
}

fn set_typed(engine: &Engine, data: &BTreeMap<Vec<u8>, Typed>) {
    let mut session = engine.session().expect("a session");
    for (name, (kind, value, expires_at)) in data {
        let set = session.set_typed(name, *kind, value, *expires_at);
        set.unwrap_or_else(|why| panic!("{}: {why}", name.escape_ascii()));
    }
}

fn all_typed(engine: &Engine) -> BTreeMap<Vec<u8>, Typed> {
    let mut collected = Collected::default();
    let snapshot = Snapshot::take(engine).expect("a snapshot");
    let copied = snapshot.copy_to(&mut collected, &mut |_| Ok(()));
    copied.expect("a copy");
    collected.typed()
}

/// From an engine to another, with collections in batches and alone.
#[test]
fn what_is_dumped_is_restored() {
    let mut data = samples();
    // What fits a slot of any engine.
    data.retain(|_, (_, value, _)| value.len() <= 8192);
    for number in 0..3000 {
        let element = (number.to_string().into_bytes(), Vec::new());
        let name = format!("list {number}").into_bytes();
        data.insert(name, collection(Kind::List, &[element]));
    }
    let (from, to) = (engine(), engine());
    set_typed(&from, &data);
    for form in FORMS {
        let (_folder, path) = file(&dumped(&from, form));
        let loaded = load(&to, &path, Existing::Flush).expect("loaded");
        assert_eq!(loaded.written, data.len() as u64);
        assert!(all_typed(&to) == data, "{form:?}");
    }
}

fn pairs() -> impl Strategy<Value = Vec<(Vec<u8>, f64)>> {
    let text = prop_oneof![
        vec(any::<u8>(), 0..20),
        "\\PC{0,20}".prop_map(String::into_bytes)
    ];
    let score = any::<f64>().prop_filter("no NaN", |score| !score.is_nan());
    btree_map(text, score, 1..30).prop_map(|map| map.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_written_comes_back(pairs in pairs(), part in 1_usize..1000) {
        let mut members: Vec<_> = pairs.iter().map(|(key, number)| (key.clone(), score(*number))).collect();
        members.sort_by_key(|(key, value)| (u64::from_le_bytes(value[..].try_into().expect("a score")), key.clone()));
        let fields: Vec<_> = pairs.iter().map(|(key, number)| (key.clone(), number.to_string().into_bytes())).collect();
        let elements: Vec<_> = pairs.iter().map(|(key, _)| (key.clone(), Vec::new())).collect();
        let data = BTreeMap::from([
            (b"hash".to_vec(), collection(Kind::Hash, &fields)),
            (b"list".to_vec(), collection(Kind::List, &elements)),
            (b"set".to_vec(), collection(Kind::Set, &elements)),
            (b"zset".to_vec(), collection(Kind::SortedSet, &members)),
        ]);
        for form in FORMS {
            let (mut read, _) = collect_typed(&written_typed(form, &data, part)).expect("right");
            let mut data = data.clone();
            // A set of integers comes in their order.
            for side in [&mut read, &mut data] {
                let (_, set, _) = side.get_mut(&b"set"[..]).expect("a set");
                let history = Run::parse(set).expect("a run").history();
                let mut elements = entries(set);
                elements.sort();
                *set = run::write(elements.iter().map(|(key, _)| (&key[..], &b""[..])), history);
            }
            prop_assert!(read == data, "{:?}", form);
        }
    }
}

/// The bytes of a stream of these words.
fn stream(words: &[Vec<u8>]) -> Vec<u8> {
    let words = words.iter().map(|word| Ok(&word[..]));
    bpfdb_values::stream::words::read(words).expect("words of a stream")
}

fn stream_words(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let given = bpfdb_values::stream::words::each(stream, |word| {
        all.push(word.to_vec());
        Ok::<_, run::Malformed>(())
    });
    given.expect("a stream");
    all
}

#[test]
fn streams_are_words_in_json_lines() {
    let words = |text: &str| -> Vec<Vec<u8>> { text.split(' ').map(Into::into).collect() };
    let group = words(
        "group g last 2-0 read - consumer a seen 5 pending 1-0 consumer a delivered 7 times 2",
    );
    let entries = |count: usize| -> Vec<Vec<u8>> {
        let entry = |n: usize| words(&format!("entry {}-0 fields 1 field {n}", n + 1));
        (0..count).flat_map(entry).collect()
    };
    let state = |last: usize| words(&format!("last {last}-0 deleted 0-0 added {last}"));
    let mut long = words("entry 1-0 fields 2 f");
    long.extend([noise(300_000, 1), noise(700_000, 2), b"\xff".to_vec()]);
    for all in [
        state(0),
        [state(2), entries(2), group.clone()].concat(),
        [state(60_000), entries(60_000), group].concat(),
        [state(1), long].concat(),
    ] {
        let value = stream(&all);
        let entry = (&b"s"[..], ValueType::STREAM, &value[..], Some(7));
        let copy = common::written_in_order(Format::Jsonl, std::iter::once(entry), 10_000);
        let text = String::from_utf8(copy.clone()).expect("text");
        assert!(text.contains("\"stream"), "{text:.300}");
        assert!(!text.contains("\"bytes\""), "{text:.300}");
        let (read, _) = collect_typed(&copy).expect("right");
        let (kind, value, expires_at) = &read[&b"s"[..]];
        assert_eq!((*kind, *expires_at), (ValueType::STREAM, Some(7)));
        assert!(stream_words(value) == all);
    }
}
