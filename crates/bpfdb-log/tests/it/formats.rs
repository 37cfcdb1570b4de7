//! The bytes of every structure: where each field stands, that all of them come back, and that no
//! bytes whatever make a reader panic.

use crate::it::common;

use bpfdb_log::batch::{self, BatchHeader, BatchView};
use bpfdb_log::checkpoint::Mark;
use bpfdb_log::control::{self, Control};
use bpfdb_log::record::{Entry, Part, Record, Records, Value, encode_commit, encode_part};
use bpfdb_log::segment::{self, SegmentHeader};
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{
    AlignedBuffer, BLOCK, Invalid, LogError, LogId, Moment, RunId, Start, VERSION, ValueType, check,
};
use common::{options, recover, reopen, set};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

const LOG: LogId = LogId([0xa5; 16]);

fn u64s(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn u32s(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn a_control() -> Control {
    Control {
        version: bpfdb_log::VERSION,
        generation: 11,
        log: LOG,
        run: 12,
        durable_segment: 13,
        durable_sequence: 14,
        first_needed: 15,
        first_retained: 10,
        closed: true,
        newest_segment: 16,
        checkpoint: Some(Mark {
            number: 17,
            start: 18,
            end: 19,
        }),
        complete_from: Moment {
            epoch: 20,
            wall: 21,
        },
    }
}

fn a_segment() -> SegmentHeader {
    SegmentHeader {
        log: LOG,
        number: 22,
        run: 23,
        run_id: RunId([0x5a; 16]),
        first_sequence: 24,
        before: 21,
        before_end: 26,
        before_checksum: 27,
        cut: 28,
        wall: 29,
    }
}

fn a_batch() -> BatchHeader {
    BatchHeader {
        checksum: 0,
        payload: 0,
        log: LOG,
        segment: 1,
        sequence: 1,
        epoch: 33,
        durable: 34,
        wall: 35,
        records: 36,
        rings: 0,
    }
}

/// The tables of docs/formats/log.md, once more.
#[test]
fn fields_stand_where_the_page_says() {
    let bytes = a_control().encode();
    assert_eq!(&bytes[..8], b"BPFDBCTL");
    assert_eq!(u32s(&bytes, 8), VERSION);
    assert_eq!(
        u32s(&bytes, 12),
        crc32c::crc32c_append(VERSION, &bytes[16..])
    );
    assert_eq!(bytes[24..40], LOG.0);
    let fields = [16, 40, 48, 56, 64, 80, 88, 96, 104, 112, 120, 128].map(|at| u64s(&bytes, at));
    assert_eq!(fields, [11, 12, 13, 14, 15, 16, 17, 18, 19, 10, 20, 21]);
    assert_eq!(u64s(&bytes, 72), 1);
    assert!(bytes[136..].iter().all(|byte| *byte == 0));

    let bytes = a_segment().encode();
    assert_eq!(&bytes[..8], b"BPFDBSEG");
    assert_eq!(u32s(&bytes, 8), VERSION);
    assert_eq!(
        u32s(&bytes, 12),
        crc32c::crc32c_append(VERSION, &bytes[16..])
    );
    assert_eq!(bytes[16..32], LOG.0);
    let fields = [32, 40, 48, 56, 64, 72, 80, 88].map(|at| u64s(&bytes, at));
    assert_eq!(fields, [22, 23, 24, 21, 26, 27, 28, 29]);
    assert_eq!(bytes[96..112], [0x5a; 16]);
    assert!(bytes[112..].iter().all(|byte| *byte == 0));
}

#[test]
fn fields_of_a_batch_stand_where_the_page_says() {
    let mut bytes = AlignedBuffer::zeroed(0);
    let checksum = batch::encode(&mut bytes, a_batch(), &[41, 42], &[7; 4000], 99);
    assert_eq!(bytes.len(), 4096);
    assert_eq!(&bytes[..8], b"BPFDBBAT");
    assert_eq!((u32s(&bytes, 8), u32s(&bytes, 12)), (checksum, 4000));
    assert_eq!(bytes[16..32], LOG.0);
    let fields = [32, 40, 48, 56, 64].map(|at| u64s(&bytes, at));
    assert_eq!(fields, [1, 1, 33, 34, 35]);
    assert_eq!((u32s(&bytes, 72), u32s(&bytes, 76)), (36, 2));
    assert_eq!((u64s(&bytes, 80), u64s(&bytes, 88)), (41, 42));
    assert_eq!(bytes[96..], [7; 4000]);
    assert_eq!(checksum, crc32c::crc32c_append(99, &bytes[12..96 + 4000]));
}

#[test]
fn fields_of_records_stand_where_the_page_says() {
    let mut bytes = Vec::new();
    let value = Value::Inline(b"value");
    let entry = Entry {
        key: b"key",
        value,
        expires: Some(51),
    };
    let large = Value::Large {
        kind: ValueType::TEST,
        id: 52,
        len: 53,
    };
    let large = Entry {
        key: &[1; 17],
        value: large,
        expires: None,
    };
    let deleted = Entry {
        key: b"k",
        value: Value::Deleted,
        expires: None,
    };
    encode_commit(50, &[entry, large, deleted], &mut bytes);
    assert_eq!((u32s(&bytes, 0), u32s(&bytes, 4)), (16 + 48 + 64 + 32, 1));
    assert_eq!(u64s(&bytes, 8), 50);
    assert_eq!(u64s(&bytes, 16), 5 | 1 << 23 | 3 << 24);
    assert_eq!(u64s(&bytes, 24), 51);
    assert_eq!(bytes[32..48], *b"key\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(bytes[48..64], *b"value\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(u64s(&bytes, 64), 14 << 17 | 1 << 22 | 17 << 24);
    assert_eq!((u64s(&bytes, 112), u64s(&bytes, 120)), (52, 53));
    assert_eq!(u64s(&bytes, 128), 0xff_ffff | 1 << 24);
    assert_eq!(bytes.len(), 160);

    let mut bytes = Vec::new();
    let part = Part {
        id: 61,
        offset: 62,
        bytes: b"part",
    };
    encode_part(&part, &mut bytes);
    assert_eq!((u32s(&bytes, 0), u32s(&bytes, 4)), (48, 2));
    let fields = [8, 16, 24, 32].map(|at| u64s(&bytes, at));
    assert_eq!(fields, [0, 61, 62, 4]);
    assert_eq!(bytes[40..], *b"part\0\0\0\0");
}

#[test]
fn another_version_is_told_apart() {
    let mut bytes = a_control().encode();
    let mut of_version = |version: u32| {
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        let checksum = crc32c::crc32c_append(version, &bytes[16..]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        Control::decode(&bytes)
    };
    for version in [0, VERSION + 1, u32::MAX] {
        assert_eq!(of_version(version), Err(Invalid::Version(version)));
    }
    let older = Control {
        version: 1,
        ..a_control()
    };
    assert_eq!(of_version(1), Ok(older));
    // What version 1 has nothing to say of is not read.
    let mut bytes = a_segment().encode();
    bytes[8] = 1;
    let checksum = crc32c::crc32c_append(1, &bytes[16..]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    let found = SegmentHeader::decode(&bytes).unwrap();
    assert_eq!(found.run_id, RunId::default());
}

#[derive(Clone, Debug)]
enum AnyValue {
    Deleted,
    Inline(Vec<u8>),
    Typed(ValueType, Vec<u8>),
    Large(ValueType, u64, u64),
}

type AnyEntry = (Vec<u8>, AnyValue, Option<u64>);

fn any_type() -> impl Strategy<Value = ValueType> {
    (0..16_u8).prop_filter_map("known", ValueType::from_code)
}

fn any_entry() -> impl Strategy<Value = AnyEntry> {
    let value = prop_oneof![
        Just(AnyValue::Deleted),
        vec(any::<u8>(), 0..100).prop_map(AnyValue::Inline),
        (any_type(), vec(any::<u8>(), 1..100))
            .prop_filter("no string", |(kind, _)| *kind != ValueType::STRING)
            .prop_map(|(kind, bytes)| AnyValue::Typed(kind, bytes)),
        (any_type(), any::<(u64, u64)>())
            .prop_map(|(kind, (id, len))| AnyValue::Large(kind, id, len)),
    ];
    (vec(any::<u8>(), 1..600), value, any::<Option<u64>>())
}

fn entry((key, value, expires): &AnyEntry) -> Entry<'_> {
    let value = match value {
        AnyValue::Deleted => Value::Deleted,
        AnyValue::Inline(bytes) => Value::Inline(bytes),
        AnyValue::Typed(kind, bytes) => Value::Typed(*kind, bytes),
        &AnyValue::Large(kind, id, len) => Value::Large { kind, id, len },
    };
    let expires = expires.filter(|_| value != Value::Deleted);
    Entry {
        key,
        value,
        expires,
    }
}

/// Reads all that there is in a payload.
fn walk(payload: &[u8]) -> usize {
    let entries = |record| match record {
        Ok((_, Record::Commit(commit))) => commit.entries().filter(Result::is_ok).count(),
        _ => 0,
    };
    Records::new(payload).map(entries).sum()
}

/// A log of one segment with one batch, whose checksums are right.
fn log_with(header: BatchHeader, positions: &[u64], payload: &[u8]) -> SimulatedDisk {
    log_of(&[(header, positions, payload)])
}

/// The same with several batches.
fn log_of(batches: &[(BatchHeader, &[u64], &[u8])]) -> SimulatedDisk {
    let disk = SimulatedDisk::new(0);
    let control = Control {
        generation: 1,
        run: 1,
        durable_segment: 0,
        durable_sequence: 0,
        first_needed: 1,
        first_retained: 0,
        newest_segment: 1,
        checkpoint: None,
        ..a_control()
    };
    let slots = [[0; BLOCK], control.encode()].concat();
    disk.put(control::NAME, &slots);
    let segment = SegmentHeader {
        number: 1,
        run: 1,
        first_sequence: 1,
        before: 0,
        before_checksum: 0,
        cut: 0,
        ..a_segment()
    };
    let mut contents = segment.encode().to_vec();
    let (mut bytes, mut seed) = (AlignedBuffer::zeroed(0), 0);
    for (header, positions, payload) in batches {
        seed = batch::encode(&mut bytes, *header, positions, payload, seed);
        contents.extend(&bytes[..]);
    }
    disk.put(&segment::name(1), &contents);
    disk
}

#[test]
fn time_does_not_go_back() {
    let first = BatchHeader {
        epoch: 5,
        records: 0,
        durable: 0,
        ..a_batch()
    };
    let found = |epoch, timestamp| {
        let second = BatchHeader {
            sequence: 2,
            records: 1,
            epoch,
            ..first
        };
        let payload = set(timestamp, b"key", b"value");
        recover(&log_of(&[(first, &[], &[]), (second, &[], &payload)]), 0)
    };
    assert_eq!(found(6, 6).unwrap().0.len(), 1);
    assert!(matches!(found(4, 6), Err(LogError::Corrupt(_))));
    assert!(matches!(found(6, 5), Err(LogError::Corrupt(_))));
}

#[test]
fn a_batch_of_another_place_does_not_count() {
    let right = BatchHeader {
        records: 0,
        durable: 0,
        ..a_batch()
    };
    let last = |header| recover(&log_with(header, &[], &[]), 0).unwrap().1.sequence;
    assert_eq!(last(right), 1);
    let log = LogId([1; 16]);
    assert_eq!(last(BatchHeader { log, ..right }), 0);
    assert_eq!(
        last(BatchHeader {
            segment: 2,
            ..right
        }),
        0
    );
    assert_eq!(
        last(BatchHeader {
            sequence: 2,
            ..right
        }),
        0
    );
}

/// With right checksums, as an attacker may write them who wants a server to end.
#[test]
fn hostile_numbers_are_refused_and_ask_for_no_memory() {
    let beyond = Control {
        newest_segment: u64::MAX,
        ..a_control()
    };
    assert_eq!(
        Control::decode(&beyond.encode()),
        Err(Invalid::Field("newest segment"))
    );
    // A batch of 36 GiB, as it says itself, in a segment that goes on for ever, as the next says.
    let disk = log_with(a_batch(), &[], &[]);
    let name = segment::name(1);
    let mut contents = disk.contents(&name).unwrap();
    contents[BLOCK + 12..BLOCK + 16].fill(0xff);
    contents[BLOCK + 76..BLOCK + 80].fill(0xff);
    disk.put(&name, &contents);
    let next = SegmentHeader {
        number: 2,
        run: 1,
        first_sequence: 2,
        before: 1,
        before_end: 1 << 60,
        cut: 0,
        ..a_segment()
    };
    disk.put(&segment::name(2), &next.encode());
    let found = recover(&disk, 0);
    assert!(matches!(found, Err(LogError::Corrupt(_))), "{found:?}");
    assert!(check(&disk, 0).unwrap().fault.is_some());
    // Numbers that have no successor.
    let disk = log_with(
        BatchHeader {
            records: 0,
            durable: 0,
            ..a_batch()
        },
        &[],
        &[],
    );
    disk.put(&format!("log/spare-{}", u64::MAX), &[]);
    disk.put("log/ffffffffffffffff.log", &[]);
    let log = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    assert_eq!(log.segment(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn control_comes_back(fields in any::<[u64; 6]>(), closed: bool) {
        let [generation, run, first_needed, durable_segment, durable_sequence, newest_segment] =
            fields;
        let [generation, run, first_needed, newest_segment] =
            [generation, run, first_needed, newest_segment].map(|n| (n >> 2).max(1));
        let control = Control {
            version: bpfdb_log::VERSION,
            generation, log: LOG, run, durable_segment, durable_sequence, first_needed, closed,
            newest_segment, first_retained: first_needed / 2,
            checkpoint: closed.then_some(Mark { number: run, start: generation, end: u64::MAX }),
            complete_from: Moment { epoch: durable_segment, wall: run },
        };
        prop_assert_eq!(Control::decode(&control.encode()), Ok(control));
    }

    #[test]
    fn segment_comes_back(fields in any::<[u64; 4]>(), number in 2..1u64 << 62, sum: u32, id: [u8; 16]) {
        let [run, before_end, cut, wall] = fields;
        let run = run >> 2;
        let header = SegmentHeader {
            log: LOG, number, run, run_id: RunId(id), first_sequence: number, before: number - 1, before_end,
            before_checksum: sum, cut, wall,
        };
        prop_assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn batch_comes_back(
        positions in vec(any::<u64>(), 0..70),
        payload in vec(any::<u8>(), 0..40_000),
        seed: u32,
    ) {
        let mut bytes = AlignedBuffer::zeroed(0);
        let checksum = batch::encode(&mut bytes, a_batch(), &positions, &payload, seed);
        let batch = BatchView::decode(&bytes, seed).unwrap();
        prop_assert_eq!(batch.positions(), positions);
        prop_assert_eq!(batch.payload, &payload[..]);
        prop_assert_eq!(batch.header.checksum, checksum);
        prop_assert_eq!(batch.header.size(), bytes.len() as u64);
        prop_assert_eq!(BatchView::decode(&bytes, !seed), Err(Invalid::Checksum));
    }

    #[test]
    fn records_come_back(
        commits in vec((1..u64::MAX, vec(any_entry(), 0..4)), 0..6),
        part in (any::<u64>(), 0..1u64 << 62, vec(any::<u8>(), 0..200)),
    ) {
        let mut bytes = Vec::new();
        for (timestamp, entries) in &commits {
            let entries: Vec<_> = entries.iter().map(entry).collect();
            encode_commit(*timestamp, &entries, &mut bytes);
        }
        let part = Part { id: part.0, offset: part.1, bytes: &part.2 };
        encode_part(&part, &mut bytes);
        let mut records = Records::new(&bytes).map(|record| record.unwrap().1);
        for (timestamp, entries) in &commits {
            let Some(Record::Commit(commit)) = records.next() else { panic!("no commit") };
            prop_assert_eq!(commit.timestamp, *timestamp);
            let found: Vec<_> = commit.entries().map(Result::unwrap).collect();
            prop_assert_eq!(found, entries.iter().map(entry).collect::<Vec<_>>());
        }
        prop_assert_eq!(records.next(), Some(Record::Part(part)));
        prop_assert_eq!(records.next(), None);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in vec(any::<u8>(), 0..6000), seed: u32) {
        prop_assert!(Control::decode(&bytes).is_err());
        prop_assert!(SegmentHeader::decode(&bytes).is_err());
        let _ = BatchHeader::peek(&bytes).map(|header| header.size());
        let _ = BatchView::decode(&bytes, seed);
        walk(&bytes);
    }

    /// Almost right bytes come further than random ones.
    #[test]
    fn no_mutation_is_taken_for_the_truth(place: Index, flip in 1..=u8::MAX, len: Index) {
        let mut control = a_control().encode();
        control[place.index(BLOCK)] ^= flip;
        prop_assert!(Control::decode(&control).is_err());
        let mut header = a_segment().encode();
        header[place.index(BLOCK)] ^= flip;
        prop_assert!(SegmentHeader::decode(&header).is_err());
        let mut bytes = AlignedBuffer::zeroed(0);
        batch::encode(&mut bytes, a_batch(), &[1, 2], &[3; 5000], 4);
        bytes[place.index(96 + 5000)] ^= flip;
        prop_assert!(BatchView::decode(&bytes, 4).is_err());
        prop_assert!(BatchView::decode(&bytes[..len.index(96 + 5000)], 4).is_err());
    }

    #[test]
    fn no_mutated_record_makes_a_reader_panic(
        entries in vec(any_entry(), 1..4),
        places in vec((any::<Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = Vec::new();
        let entries: Vec<_> = entries.iter().map(entry).collect();
        encode_commit(1, &entries, &mut bytes);
        encode_part(&Part { id: 1, offset: 0, bytes: &[1; 30] }, &mut bytes);
        for (place, byte) in places {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        walk(&bytes);
        // With a checksum that is right, recovery sees them.
        let header = BatchHeader { records: 2, epoch: 5, durable: 0, ..a_batch() };
        let disk = log_with(header, &[], &bytes);
        let found = recover(&disk, 0);
        prop_assert!(matches!(found, Ok(_) | Err(LogError::Corrupt(_))));
        let report = check(&disk, 0).unwrap();
        prop_assert_eq!(report.fault.is_none(), found.is_ok());
    }

    #[test]
    fn no_header_with_a_right_checksum_makes_recovery_panic(
        fields in any::<[u64; 3]>(),
        records: u32,
        positions in vec(any::<u64>(), 0..4),
    ) {
        let [epoch, durable, wall] = fields;
        let header = BatchHeader { epoch, durable, wall, records, ..a_batch() };
        let disk = log_with(header, &positions, &[]);
        let found = recover(&disk, 0);
        prop_assert_eq!(found.is_ok(), records == 0);
    }

    /// Files of a log that hold anything.
    #[test]
    fn no_files_make_recovery_panic(
        place: Index,
        bytes in vec(any::<u8>(), 1..300),
        which in 0..2usize,
        cut: Option<Index>,
    ) {
        let disk = log_with(BatchHeader { records: 0, durable: 0, ..a_batch() }, &[1], &[]);
        let name = [control::NAME.to_owned(), segment::name(1)][which].clone();
        let mut contents = disk.contents(&name).unwrap();
        let at = place.index(contents.len());
        for (byte, new) in contents[at..].iter_mut().zip(bytes) {
            *byte = new;
        }
        if let Some(cut) = cut {
            contents.truncate(cut.index(contents.len()));
        }
        disk.put(&name, &contents);
        let found = recover(&disk, 0);
        prop_assert!(matches!(found, Ok(_) | Err(LogError::Corrupt(_))));
        check(&disk, 0).unwrap();
    }
}
