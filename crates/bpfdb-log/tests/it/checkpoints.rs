//! Files of checkpoints: every bit of them counts, every failure leaves the one before, and a
//! loss of power at any moment leaves one that is whole, with its log.

use crate::it::common;

use bpfdb_log::checkpoint::{
    self, BlockHeader, CheckpointReader, CheckpointWriter, Contents, Footer, Header, Mark,
    PAYLOAD_MAX, PLACEMENT_MAX, VALUE_MAX, WrittenCheckpoint,
};
use bpfdb_log::reader::{Item, LogReader, read_control};
use bpfdb_log::record::{Entry, Value, encode_entry};
use bpfdb_log::simulation::{Fault, Operation, SimulatedDisk};
use bpfdb_log::{
    BLOCK, Batch, CHECKPOINT_VERSION, Cut, Disk, LogError, LogId, LogWriter, Place, Start,
    ValueType,
};
use common::checkpoint_files::{Found, read};
use common::{count, options, recover, reopen, seeds, set};

const LOG: LogId = LogId(*b"identity of logs");

fn header(number: u64, start: u64) -> Header {
    Header {
        log: LOG,
        number,
        run: 3,
        start,
        wall: 5,
        first_segment: 1,
        placement: b"placement".to_vec(),
    }
}

fn entry(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let entry = Entry {
        key,
        value: Value::Inline(value),
        expires: None,
    };
    encode_entry(&entry, &mut bytes);
    bytes
}

/// Two keys, a large value, another key.
fn write(disk: &SimulatedDisk, header: Header, end: u64) -> Result<WrittenCheckpoint, LogError> {
    let mut writer = CheckpointWriter::create(disk.clone(), header)?;
    writer.add(&[entry(b"a", b"1"), entry(b"b", &[2; 30])].concat(), 2)?;
    writer.add_entry(b"large", &vec![7; PAYLOAD_MAX + 5], Some(9))?;
    writer.add_entry(b"c", b"3", Some(4))?;
    writer.finish(end, 6)
}

fn expected() -> Found {
    vec![
        (b"a".to_vec(), b"1".to_vec(), None),
        (b"b".to_vec(), vec![2; 30], None),
        (b"large".to_vec(), vec![7; PAYLOAD_MAX + 5], Some(9)),
        (b"c".to_vec(), b"3".to_vec(), Some(4)),
    ]
}

#[test]
fn a_checkpoint_comes_back() {
    let disk = SimulatedDisk::new(1);
    let written = write(&disk, header(2, 10), 12).unwrap();
    let mark = Mark {
        number: 2,
        start: 10,
        end: 12,
    };
    assert_eq!(
        (written.mark, written.entries, written.first_segment),
        (mark, 4, 1)
    );
    assert_eq!(disk.names(), [checkpoint::name(2)]);
    assert_eq!(
        disk.contents(&checkpoint::name(2)).unwrap().len() as u64,
        written.bytes
    );
    assert_eq!(read(&disk, LOG, mark).unwrap(), expected());
    assert_eq!(checkpoint::read_header(&disk, 2).unwrap(), header(2, 10));

    // Another one than the control file means.
    for wrong in [
        Mark { start: 11, ..mark },
        Mark { end: 13, ..mark },
        Mark { number: 3, ..mark },
    ] {
        assert!(
            matches!(read(&disk, LOG, wrong), Err(LogError::Corrupt(_))),
            "{wrong:?}"
        );
    }
    let foreign = read(&disk, LogId([1; 16]), mark);
    assert!(matches!(foreign, Err(LogError::Corrupt(_))));
}

#[test]
fn a_large_value_has_its_type() {
    let disk = SimulatedDisk::new(1);
    let mut writer = CheckpointWriter::create(disk.clone(), header(1, 0)).unwrap();
    let lengths = [VALUE_MAX, VALUE_MAX + 1, PAYLOAD_MAX + 5];
    for len in lengths {
        let value = vec![7; len];
        writer
            .add_typed(b"key", ValueType::HASH, &value, None)
            .unwrap();
    }
    let mark = writer.finish(0, 0).unwrap().mark;
    let mut reader = CheckpointReader::open(&disk, LOG, mark).unwrap();
    let mut found = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        match block.contents().unwrap() {
            Contents::Entries(entries, _) => found.extend(entries.map(|entry| {
                let Value::Typed(kind, bytes) = entry.unwrap().value else {
                    panic!("it has a type");
                };
                (kind, bytes.len())
            })),
            Contents::Large(entry) => {
                let Value::Large { kind, len, .. } = entry.value else {
                    panic!("it is large");
                };
                found.push((kind, len as usize));
            }
            Contents::LargeBytes(_) => {}
        }
    }
    assert_eq!(found, lengths.map(|len| (ValueType::HASH, len)));
    let mut reader = CheckpointReader::open(&disk, LOG, mark).unwrap();
    reader.verify().unwrap();
}

#[test]
fn an_empty_checkpoint_and_a_full_header() {
    let disk = SimulatedDisk::new(1);
    let full = Header {
        placement: vec![9; PLACEMENT_MAX],
        ..header(1, 0)
    };
    let writer = CheckpointWriter::create(disk.clone(), full.clone()).unwrap();
    let written = writer.finish(0, 0).unwrap();
    assert_eq!(written.bytes, 2 * BLOCK as u64);
    assert_eq!(read(&disk, LOG, written.mark).unwrap(), Found::new());
    assert_eq!(checkpoint::read_header(&disk, 1).unwrap(), full);
}

/// The tables of docs/formats/checkpoint.md, once more.
#[test]
fn fields_stand_where_the_page_says() {
    let u64s = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let u32s = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let sum = |seed: u32, bytes: &[u8], from: usize| crc32c::crc32c_append(seed, &bytes[from..]);

    let bytes = header(2, 10).encode();
    assert_eq!(&bytes[..8], b"BPFDBCKP");
    assert_eq!(
        (u32s(&bytes, 8), u32s(&bytes, 12)),
        (CHECKPOINT_VERSION, sum(CHECKPOINT_VERSION, &bytes, 16))
    );
    assert_eq!(bytes[16..32], LOG.0);
    let fields = [32, 40, 48, 56, 64].map(|at| u64s(&bytes, at));
    assert_eq!(fields, [2, 3, 10, 5, 1]);
    assert_eq!(u64s(&bytes, 72), 9);
    assert_eq!(&bytes[80..89], b"placement");

    let footer = Footer {
        log: LOG,
        number: 1,
        end: 2,
        entries: 3,
        blocks: 4,
        bytes: 5,
        wall: 6,
    };
    let bytes = footer.encode();
    assert_eq!(&bytes[..8], b"BPFDBCKE");
    assert_eq!(
        (u32s(&bytes, 8), u32s(&bytes, 12)),
        (CHECKPOINT_VERSION, sum(CHECKPOINT_VERSION, &bytes, 16))
    );
    assert_eq!(bytes[16..32], LOG.0);
    let fields = [32, 40, 48, 56, 64, 72, 80].map(|at| u64s(&bytes, at));
    assert_eq!(fields, [1, 2, 3, 4, 5, 6, 0]);

    let disk = SimulatedDisk::new(1);
    write(&disk, header(2, 10), 12).unwrap();
    let file = disk.contents(&checkpoint::name(2)).unwrap();
    let block = &file[BLOCK..2 * BLOCK];
    assert_eq!(&block[..8], b"BPFDBCKB");
    assert_eq!(u32s(block, 8), sum(1, block, 12));
    assert_eq!(u32s(block, 12) as usize, 48 + 64);
    assert_eq!(block[16..32], LOG.0);
    assert_eq!((u64s(block, 32), u64s(block, 40)), (2, 1));
    assert_eq!(
        (u32s(block, 48), u32s(block, 52), u64s(block, 56)),
        (1, 2, 0)
    );
    assert_eq!(&block[64..112], entry(b"a", b"1"));
    assert_eq!(BlockHeader::peek(block).unwrap().payload, 48 + 64);
    let kinds: Vec<_> = (1..file.len() / BLOCK)
        .map(|n| &file[n * BLOCK..])
        .filter(|block| &block[..8] == b"BPFDBCKB")
        .map(|block| u32s(block, 48))
        .collect();
    assert_eq!(kinds, [1, 2, 3, 3, 1]);
}

/// Of a later version of bpfdb, each with its right checksum. It is reported, not taken for damage of
/// another kind, and not misread.
#[test]
fn another_version_of_a_checkpoint_is_refused() {
    let disk = SimulatedDisk::new(1);
    let mark = write(&disk, header(2, 10), 12).unwrap().mark;
    let name = checkpoint::name(2);
    let right = disk.contents(&name).unwrap();
    for version in [0, CHECKPOINT_VERSION + 1, u32::MAX] {
        for at in [0, right.len() - BLOCK] {
            let mut wrong = right.clone();
            let block = &mut wrong[at..at + BLOCK];
            block[8..12].copy_from_slice(&version.to_le_bytes());
            let checksum = crc32c::crc32c_append(version, &block[16..]);
            block[12..16].copy_from_slice(&checksum.to_le_bytes());
            disk.put(&name, &wrong);
            let error = read(&disk, LOG, mark).unwrap_err().to_string();
            let told = format!("version {version}");
            assert!(error.contains(&name) && error.contains(&told), "{error}");
        }
    }
    disk.put(&name, &right);
    assert_eq!(read(&disk, LOG, mark).unwrap(), expected());
}

/// No bit of the file may be another one, and no block be missing or twice. A bit of each `stride`th
/// byte is turned.
fn bits_count(stride: usize) {
    let disk = SimulatedDisk::new(1);
    let mut writer = CheckpointWriter::create(disk.clone(), header(1, 10)).unwrap();
    writer.add(&entry(b"a", b"1"), 1).unwrap();
    writer.add_entry(b"large", &[7; 33_000], Some(9)).unwrap();
    let mark = writer.finish(12, 6).unwrap().mark;
    let name = checkpoint::name(1);
    let good = disk.contents(&name).unwrap();
    let is_found = |bytes: &[u8]| {
        disk.put(&name, bytes);
        let outcome = read(&disk, LOG, mark);
        matches!(outcome, Err(LogError::Corrupt(corrupt)) if corrupt.file == name)
    };
    let mut bytes = good.clone();
    for at in (0..good.len()).step_by(stride) {
        let bit = 1 << (at % 8);
        bytes[at] ^= bit;
        assert!(is_found(&bytes), "byte {at}");
        bytes[at] ^= bit;
    }
    let block = |n: usize| &good[n * BLOCK..(n + 1) * BLOCK];
    let (last, rest) = (good.len() - BLOCK, &good[2 * BLOCK..]);
    assert!(is_found(&[block(0), rest].concat()), "a block is missing");
    assert!(
        is_found(&[block(0), block(1), block(1), rest].concat()),
        "a block twice"
    );
    assert!(is_found(&good[..last]), "it is not complete");
    assert!(
        is_found(&[&good[..], block(0)].concat()),
        "something follows"
    );
    assert!(is_found(&[]), "it is empty");
    assert!(!is_found(&good));
}

/// An odd number, so that each bit and each part of a block has its turn.
#[test]
fn every_bit_counts() {
    bits_count(11);
}

#[test]
#[ignore = "long: make soak"]
fn soak_every_bit_counts() {
    bits_count(1);
}

/// Any operation fails, in any way: the error is reported, and what counts is whole.
#[test]
fn every_failure_leaves_one_that_counts() {
    for operation in Operation::ALL {
        for fault in [Fault::Error, Fault::Full, Fault::Interrupted, Fault::Short] {
            for nth in 0..4 {
                fail(operation, nth, fault);
            }
        }
    }
}

fn fail(operation: Operation, nth: u64, fault: Fault) {
    let disk = SimulatedDisk::new(nth);
    let mut log = with_checkpoint(&disk);
    disk.fail(operation, nth, fault);
    let made = next_checkpoint(&disk, &mut log);
    let kept = read_control(&disk).unwrap().unwrap().checkpoint;
    let kept = kept.expect("there was one");
    let counts = if made.is_ok() { 2 } else { 1 };
    // The control file may name it although its owner got the error that this had failed.
    assert!(
        kept.number >= counts,
        "{operation:?} {nth} {fault:?}: {made:?}"
    );
    let id = log.log();
    assert_eq!(read(&disk, id, kept).unwrap(), expected());
    drop(log);
    let disk = disk.lose_power();
    let kept = read_control(&disk).unwrap().unwrap().checkpoint.unwrap();
    assert!(
        kept.number >= counts,
        "{operation:?} {nth} {fault:?}: {made:?}"
    );
    assert_eq!(read(&disk, id, kept).unwrap(), expected());
    recover(&disk, 0).unwrap();
}

fn append(log: &mut LogWriter<SimulatedDisk>, epoch: u64) {
    let records = set(epoch, b"key", &[epoch as u8; 3000]);
    log.append(Batch {
        epoch,
        positions: &[],
        wall: 0,
        records: &records,
        record_count: count(&records),
    })
    .unwrap();
}

/// A log of several segments, with checkpoint 1.
fn with_checkpoint(disk: &SimulatedDisk) -> LogWriter<SimulatedDisk> {
    let mut log = reopen(disk, Start::NewRun, options(4, 2)).unwrap();
    (1..=9).for_each(|epoch| append(&mut log, epoch));
    checkpoint_at(disk, &mut log, 1, 5).unwrap();
    log
}

fn checkpoint_at(
    disk: &SimulatedDisk,
    log: &mut LogWriter<SimulatedDisk>,
    number: u64,
    start: u64,
) -> Result<(), LogError> {
    let header = Header {
        log: log.log(),
        first_segment: log.first_needed() + 1,
        ..header(number, start)
    };
    let written = write(disk, header, start + 2)?;
    log.install(&written)?;
    log.release_before(written.first_segment)?;
    checkpoint::remove_others(disk, &[number])
}

fn next_checkpoint(
    disk: &SimulatedDisk,
    log: &mut LogWriter<SimulatedDisk>,
) -> Result<(), LogError> {
    checkpoint_at(disk, log, 2, 7)
}

/// Everything stops in the middle of any operation: of a checkpoint, of its publication, and
/// while old segments go.
#[test]
fn power_is_lost_at_every_operation() {
    let mut by_number = [0; 3];
    for seed in seeds(6) {
        for nth in 0.. {
            let disk = SimulatedDisk::new(seed);
            let mut log = with_checkpoint(&disk);
            let id = log.log();
            disk.stop_at(nth);
            let made = next_checkpoint(&disk, &mut log);
            let is_over = !disk.is_stopped();
            drop(log);
            let disk = disk.lose_power();
            let kept = read_control(&disk).unwrap().unwrap().checkpoint.unwrap();
            assert!(made.is_err() || kept.number == 2);
            by_number[kept.number as usize] += 1;
            assert_eq!(
                read(&disk, id, kept).unwrap(),
                expected(),
                "seed {seed}, {nth}"
            );
            let (commits, end) = recover(&disk, 0).unwrap();
            let timestamps: Vec<_> = commits.iter().map(|commit| commit.timestamp).collect();
            assert_eq!(
                timestamps,
                (kept.start + 1..=9).collect::<Vec<_>>(),
                "all after it"
            );
            assert_eq!(end.greatest_timestamp, 9);
            // The next owner removes what does not count.
            checkpoint::remove_others(&disk, &[kept.number]).unwrap();
            assert_eq!(disk.list("checkpoint").unwrap().len(), 1);
            let mut log = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
            append(&mut log, 20);
            checkpoint_at(&disk, &mut log, kept.number + 1, 20).unwrap();
            if is_over {
                break;
            }
        }
    }
    assert!(by_number[1] > 10 && by_number[2] > 10, "{by_number:?}");
}

/// A flush that lies, of the checkpoint, its folder, the log or the control file: what counts then is
/// whole, or recovery says that it is damaged.
#[test]
fn a_flush_that_lies_is_found() {
    let (mut whole, mut found) = (0, 0);
    for operation in [Operation::Flush, Operation::FlushFolder] {
        for (nth, seed) in (0..8).flat_map(|nth| (0..20).map(move |seed| (nth, seed))) {
            let disk = SimulatedDisk::new(seed);
            let mut log = with_checkpoint(&disk);
            let id = log.log();
            disk.fail(operation, nth, Fault::Lie);
            next_checkpoint(&disk, &mut log).unwrap();
            drop(log);
            let disk = disk.lose_power();
            let what = format!("{operation:?} {nth}, seed {seed}");
            let control = read_control(&disk).map(|control| control.expect(&what));
            let read = control.and_then(|control| {
                let read = read(&disk, id, control.checkpoint.expect(&what))?;
                recover(&disk, 0).map(|_| read)
            });
            match read {
                Ok(read) => {
                    assert_eq!(read, expected(), "{what}");
                    whole += 1;
                }
                Err(LogError::Corrupt(_)) => found += 1,
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    assert!(whole > 10 && found > 10, "{whole} whole, {found} found");
}

#[test]
fn a_checkpoint_that_does_not_follow_is_refused() {
    let disk = SimulatedDisk::new(1);
    let mut log = with_checkpoint(&disk);
    let first_segment = log.first_needed();
    let of = |number, first_segment| WrittenCheckpoint {
        mark: Mark {
            number,
            start: 6,
            end: 6,
        },
        first_segment,
        entries: 0,
        bytes: 0,
        wall: 0,
    };
    for wrong in [
        of(1, first_segment),
        of(2, first_segment - 1),
        of(2, log.segment() + 1),
    ] {
        let refused = log.install(&wrong);
        assert!(matches!(refused, Err(LogError::Refused(_))), "{wrong:?}");
    }
    log.install(&of(2, first_segment)).unwrap();
}

/// Timestamps up to the checkpoint's end count as used, be the log without them.
#[test]
fn time_goes_on_behind_the_checkpoint() {
    let disk = SimulatedDisk::new(1);
    let mut log = with_checkpoint(&disk);
    let header = Header {
        log: log.log(),
        first_segment: log.first_needed(),
        ..header(2, 40)
    };
    let written = write(&disk, header, 50).unwrap();
    log.install(&written).unwrap();
    log.close().unwrap();
    let (commits, end) = recover(&disk, 0).unwrap();
    assert_eq!(
        (commits.len(), end.epoch, end.greatest_timestamp),
        (0, 9, 50)
    );
    let mut log = reopen(&disk, Start::NewRun, options(4, 2)).unwrap();
    let early = set(50, b"key", b"value");
    let refused = log.append(Batch {
        epoch: 60,
        positions: &[],
        wall: 0,
        records: &early,
        record_count: 1,
    });
    assert!(matches!(refused, Err(LogError::Refused(_))), "{refused:?}");
    append(&mut log, 51);
    let (commits, _) = recover(&disk, 0).unwrap();
    assert_eq!(commits.len(), 1);
}

/// A directory that has lost its control file and its log is none that is new.
#[test]
fn a_checkpoint_without_a_control_file_is_missed() {
    let disk = SimulatedDisk::new(1);
    drop(with_checkpoint(&disk));
    for name in disk.names() {
        if !name.starts_with("checkpoint/") {
            disk.remove(&name).unwrap();
        }
    }
    let error = read_control(&disk).unwrap_err();
    assert!(
        error.to_string().contains("there are checkpoints"),
        "{error}"
    );
    // What was never complete is not missed.
    let begun = SimulatedDisk::new(1);
    begun.put(&checkpoint::part_name(1), b"");
    assert_eq!(read_control(&begun).unwrap(), None);
}

/// A checkpoint need not know what a key had before a commit between its start and its end. Who
/// cuts such a commit off says what that does.
#[test]
fn a_cut_before_the_end_of_the_checkpoint_is_told() {
    let disk = SimulatedDisk::new(1);
    let log = with_checkpoint(&disk);
    let mark = read_control(&disk).unwrap().unwrap().checkpoint.unwrap();
    log.close().unwrap();
    let mut reader = LogReader::new(disk.clone(), read_control(&disk).unwrap().unwrap());
    let (mut broken, mut whole) = (0, 0);
    while let Some(item) = reader.advance().unwrap() {
        let Item::Batch(header) = item else {
            continue;
        };
        let place = Place {
            segment: reader.segment().unwrap().number,
            offset: reader.position().offset,
        };
        let cut = Cut::plan(&disk, 0, place).unwrap();
        let is_broken = header.epoch < mark.end;
        let told = cut.lost().breaks_checkpoint;
        assert_eq!(
            told,
            is_broken.then_some((mark.start, mark.end)),
            "{header:?}"
        );
        *(if is_broken { &mut broken } else { &mut whole }) += 1;
    }
    assert!(broken > 0 && whole > 0, "{broken}, {whole}");
}

/// The log was idle when its checkpoint was made, and so ends before the checkpoint does: nothing
/// that this needs is lost with what came later. If that cannot be read, it is not known.
#[test]
fn a_cut_behind_an_idle_checkpoint_breaks_nothing() {
    let disk = SimulatedDisk::new(1);
    let mut log = with_checkpoint(&disk);
    let header = Header {
        log: log.log(),
        first_segment: log.segment(),
        ..header(2, 12)
    };
    let written = write(&disk, header, 14).unwrap();
    let place = {
        let mut reader = LogReader::new(disk.clone(), read_control(&disk).unwrap().unwrap());
        while reader.advance().unwrap().is_some() {}
        Place {
            segment: reader.segment().unwrap().number,
            offset: reader.position().offset,
        }
    };
    log.install(&written).unwrap();
    append(&mut log, 20);
    append(&mut log, 21);
    log.close().unwrap();
    let told = || Cut::plan(&disk, 0, place).unwrap().lost().clone();
    assert_eq!((told().commits, told().was_durable), (2, true));
    assert_eq!(told().breaks_checkpoint, None);
    // The first of these batches is behind the place, be it in the same segment or the next one.
    let segment = log_file_of(&disk, 20);
    disk.flip(&segment.0, segment.1 + 200, 0);
    assert_eq!(told().breaks_checkpoint, Some((12, 14)));
}

/// Name of the segment, and offset, of the batch with this epoch.
fn log_file_of(disk: &SimulatedDisk, epoch: u64) -> (String, usize) {
    let mut reader = LogReader::new(disk.clone(), read_control(disk).unwrap().unwrap());
    while let Some(item) = reader.advance().unwrap() {
        if let Item::Batch(header) = item
            && header.epoch == epoch
        {
            let at = reader.position().offset - header.size();
            return (reader.file_name(), at as usize);
        }
    }
    panic!("no batch has epoch {epoch}");
}
