//! What the corpora begin with: all that a writer writes.

use bpfdb_log::checkpoint::{CheckpointWriter, Header, VALUE_MAX};
use bpfdb_log::simulation::{Fault, Operation, SimulatedDisk};
use bpfdb_log::{BLOCK, Start};

use crate::it::common::directories::retained;
use crate::it::common::files::files_of;
use crate::it::common::fixture::{folder, load};
use crate::it::common::{append_at, options, reopen, set, set_large};
use crate::it::fuzz::archive::pack;

type Seed = (&'static str, &'static str, Vec<u8>);

pub(crate) fn all() -> Vec<Seed> {
    let directories = [
        ("empty", empty()),
        ("closed", closed()),
        ("crashed", crashed()),
        ("two-runs", two_runs()),
        ("given-up", given_up()),
        ("no-space", no_space()),
        ("checkpoint", checkpoint()),
        ("retained", kept()),
        // How a copy divides commits may change.
        ("copy", load(&folder("copy", 2))),
    ];
    let closed = closed();
    let segment = closed
        .contents("log/0000000000000002.log")
        .expect("it is there");
    let large = set_large(5, b"large", 1, &[7; 700], 300);
    let seed = 4_u32.to_le_bytes();
    let batch = |at: usize| [&seed[..], &segment[at..at + BLOCK]].concat();
    let control = closed.contents("control").expect("it is there");
    let mut seeds = vec![
        ("control", "first", control[..BLOCK].to_vec()),
        ("control", "second", control[BLOCK..].to_vec()),
        ("segment", "second", segment[..BLOCK].to_vec()),
        ("batch", "first", batch(BLOCK)),
        ("batch", "second", batch(2 * BLOCK)),
        ("records", "large", large.clone()),
        (
            "records",
            "several",
            [set(1, b"a", b"1"), set(2, b"b", &[2; 40]), large].concat(),
        ),
    ];
    let directory =
        |(name, disk): (&'static str, SimulatedDisk)| ("directory", name, pack(&files_of(&disk)));
    seeds.extend(directories.map(directory));
    seeds
}

/// Ten epochs over several segments, each with a large value and two commits.
fn write(disk: &SimulatedDisk, start: Start, epochs: std::ops::Range<u64>, closes: bool) {
    let mut writer = reopen(disk, start, options(4, 2)).expect("opened");
    for epoch in epochs {
        let group = [
            set(2 * epoch, b"b", &[epoch as u8; 70]),
            set_large(2 * epoch - 1, b"a", epoch, &[epoch as u8; 900], 500),
        ];
        append_at(&mut writer, 2 * epoch, 10 * epoch, &group.concat()).expect("durable");
    }
    if closes {
        writer.close().expect("closed");
    }
}

fn empty() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    write(&disk, Start::NewRun, 1..1, true);
    disk
}

fn closed() -> SimulatedDisk {
    let disk = SimulatedDisk::new(2);
    write(&disk, Start::NewRun, 1..8, true);
    disk
}

/// The last batch is torn.
fn crashed() -> SimulatedDisk {
    let disk = SimulatedDisk::new(3);
    write(&disk, Start::NewRun, 1..6, false);
    disk.flip("log/0000000000000002.log", 2 * BLOCK + 100, 0);
    disk
}

/// The first leaves a commit that does not count, the second goes on after a kill.
fn two_runs() -> SimulatedDisk {
    let disk = SimulatedDisk::new(4);
    write(&disk, Start::NewRun, 1..3, false);
    let mut writer = reopen(&disk, Start::SameRun, options(4, 2)).expect("opened");
    let ghost = [set(7, b"ghost", b""), set(5, b"b", b"")].concat();
    append_at(&mut writer, 6, 5, &ghost).expect("durable");
    write(&disk, Start::NewRun, 5..8, false);
    disk
}

fn given_up() -> SimulatedDisk {
    let disk = SimulatedDisk::new(5);
    write(&disk, Start::NewRun, 1..6, false);
    let mut writer = reopen(&disk, Start::SameRun, options(4, 2)).expect("opened");
    writer.release_before(2).expect("released");
    append_at(&mut writer, 30, 30, &set(29, b"b", b"")).expect("durable");
    append_at(&mut writer, 40, 40, &set(39, b"b", b"")).expect("durable");
    disk
}

/// The log has given up its beginning for a checkpoint, with a large value.
fn checkpoint() -> SimulatedDisk {
    let disk = SimulatedDisk::new(7);
    write(&disk, Start::NewRun, 1..6, false);
    let mut writer = reopen(&disk, Start::SameRun, options(4, 2)).expect("opened");
    let header = Header {
        log: writer.log(),
        number: 1,
        run: writer.run(),
        start: 10,
        wall: 50,
        first_segment: writer.segment(),
        placement: b"placement".to_vec(),
    };
    let mut file = CheckpointWriter::create(disk.clone(), header).expect("created");
    for (key, value, expires) in [(&b"a"[..], &[5; 900][..], Some(9)), (b"b", b"1", None)] {
        file.add_entry(key, value, expires).expect("added");
    }
    file.add_entry(b"large", &[7; VALUE_MAX + 1], None)
        .expect("added");
    let written = file.finish(10, 51).expect("complete");
    writer.install(&written).expect("installed");
    writer
        .release_before(written.first_segment)
        .expect("released");
    append_at(&mut writer, 30, 30, &set(29, b"b", b"")).expect("durable");
    disk
}

/// Older checkpoints are retained.
fn kept() -> SimulatedDisk {
    let disk = SimulatedDisk::new(8);
    retained(&disk);
    disk
}

/// A group was begun, and found no space; what it left is valid.
fn no_space() -> SimulatedDisk {
    let disk = SimulatedDisk::new(6);
    write(&disk, Start::NewRun, 1..2, false);
    let mut writer = reopen(&disk, Start::SameRun, options(8, 2)).expect("opened");
    let group = [b"a", b"b", b"c"]
        .map(|key| set(9, key, &[1; 3000]))
        .concat();
    disk.fail(Operation::Write, 1, Fault::Full);
    append_at(&mut writer, 9, 9, &group).expect_err("no space");
    disk
}
