//! One slot of the control file is enough: whichever of the two is damaged, and whenever, the
//! other one leads to everything.

use crate::it::common;

use bpfdb_log::checkpoint::{self, CheckpointWriter, Header};
use bpfdb_log::control::{Control, NAME};
use bpfdb_log::reader::read_control;
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{BLOCK, LogError, LogWriter, Rebuilt, Start, check};
use common::{append_at, options, recover, reopen, seeds, set};

const EPOCHS: u64 = 9;

fn log_of(disk: &SimulatedDisk) -> LogWriter<SimulatedDisk> {
    let mut log = reopen(disk, Start::NewRun, options(4, 2)).unwrap();
    for epoch in 1..=EPOCHS {
        append_at(
            &mut log,
            epoch,
            0,
            &set(epoch, b"key", &[epoch as u8; 3000]),
        )
        .unwrap();
    }
    log
}

/// Makes the next checkpoint of what is durable, and gives up what is before the newest segment.
fn make_checkpoint(
    disk: &SimulatedDisk,
    log: &mut LogWriter<SimulatedDisk>,
    number: u64,
) -> Result<(), LogError> {
    let epoch = log.durable().epoch;
    let header = Header {
        log: log.log(),
        number,
        run: log.run(),
        start: epoch,
        wall: 0,
        first_segment: log.segment(),
        placement: Vec::new(),
    };
    let written = CheckpointWriter::create(disk.clone(), header)?.finish(epoch, 0)?;
    log.install(&written)?;
    log.release_before(written.first_segment)?;
    checkpoint::remove_others(disk, &[number])
}

/// What this owner would write, no reader could read. Only a file that was written by hand can come
/// to such numbers.
#[test]
fn a_log_whose_numbers_have_come_to_their_end_is_refused() {
    let disk = SimulatedDisk::new(1);
    log_of(&disk).close().unwrap();
    let control = Control {
        generation: (1 << 62) - 1,
        ..read_control(&disk).unwrap().unwrap()
    };
    let mut slots = vec![0; 2 * BLOCK];
    slots[BLOCK..].copy_from_slice(&control.encode());
    disk.put(NAME, &slots);
    assert_eq!(check(&disk, 0).unwrap().fault, None);
    let before = disk.contents(NAME);
    let refused = reopen(&disk, Start::NewRun, options(4, 2)).map(drop);
    assert!(matches!(refused, Err(LogError::Refused(_))), "{refused:?}");
    assert_eq!(disk.contents(NAME), before);
}

/// The greatest timestamp, and the checkpoint, if it is whole.
fn found(disk: &SimulatedDisk) -> (u64, Option<u64>) {
    let (_, end) = recover(disk, 0).unwrap();
    let control = end.control.unwrap();
    if let Some(mark) = control.checkpoint {
        let reader = checkpoint::CheckpointReader::open(disk, control.log, mark);
        reader.unwrap().verify().unwrap();
    }
    (
        end.greatest_timestamp,
        control.checkpoint.map(|mark| mark.number),
    )
}

#[test]
fn a_bit_of_any_slot_does_no_harm() {
    let disk = SimulatedDisk::new(0);
    let mut log = log_of(&disk);
    let is_enough = |disk: &SimulatedDisk, checkpoint: Option<u64>| {
        for offset in 0..2 * BLOCK {
            disk.flip(NAME, offset, 5);
            assert_eq!(found(disk), (EPOCHS, checkpoint), "{offset}");
            disk.flip(NAME, offset, 5);
        }
    };
    is_enough(&disk, None);
    make_checkpoint(&disk, &mut log, 1).unwrap();
    is_enough(&disk, Some(1));
    make_checkpoint(&disk, &mut log, 2).unwrap();
    is_enough(&disk, Some(2));
    log.close().unwrap();
    is_enough(&disk, Some(2));
    drop(reopen(&disk, Start::NewRun, options(4, 2)).unwrap());
    is_enough(&disk, Some(2));
}

/// A block of the file cannot be read: the other slot is. It is whole again when it is written.
#[test]
fn a_slot_that_cannot_be_read_does_no_harm() {
    for slot in 0..2 {
        let disk = SimulatedDisk::new(0);
        let mut log = log_of(&disk);
        make_checkpoint(&disk, &mut log, 1).unwrap();
        drop(log);
        disk.spoil(NAME, slot * BLOCK);
        assert_eq!(found(&disk), (EPOCHS, Some(1)));
        drop(reopen(&disk, Start::NewRun, options(4, 2)).unwrap());
        disk.spoil(NAME, (1 - slot) * BLOCK);
        assert_eq!(found(&disk), (EPOCHS, Some(1)));
        // Nobody knows what neither of them says: this may pass, and is no damage.
        disk.spoil(NAME, slot * BLOCK);
        let error = read_control(&disk).unwrap_err();
        assert!(matches!(error, LogError::Io { .. }), "{error}");
        assert!(matches!(Rebuilt::plan(&disk), Err(LogError::Io { .. })));
    }
}

/// Power is lost at any moment of a checkpoint, and then a slot is damaged.
#[test]
fn no_moment_leaves_a_slot_that_leads_nowhere() {
    let mut counts = [0; 3];
    for seed in seeds(10) {
        for nth in 0.. {
            let disk = SimulatedDisk::new(seed);
            let mut log = log_of(&disk);
            make_checkpoint(&disk, &mut log, 1).unwrap();
            append_at(&mut log, EPOCHS + 1, 0, &set(EPOCHS + 1, b"key", b"")).unwrap();
            disk.stop_at(nth);
            let _ = make_checkpoint(&disk, &mut log, 2);
            let is_over = !disk.is_stopped();
            drop(log);
            let disk = disk.lose_power();
            for slot in 0..2 {
                let disk = disk.fork();
                disk.flip(NAME, slot * BLOCK + 100, 1);
                // Power loss has torn the other one.
                if read_control(&disk).is_err() {
                    counts[0] += 1;
                    continue;
                }
                let (timestamp, checkpoint) = found(&disk);
                assert_eq!(timestamp, EPOCHS + 1, "seed {seed}, {nth}, slot {slot}");
                counts[checkpoint.unwrap() as usize] += 1;
                drop(reopen(&disk, Start::NewRun, options(4, 2)).unwrap());
                let disk = disk.fork();
                disk.flip(NAME, slot * BLOCK + 100, 1);
                assert_eq!(found(&disk).0, EPOCHS + 1);
            }
            if is_over {
                break;
            }
        }
    }
    assert!(counts[1] > 10 && counts[2] > 10, "{counts:?}");
}

/// One slot is damaged, and the other one is older than what was given up: as a server of before
/// left it, which wrote one slot only. The control file is made anew.
#[test]
fn a_slot_that_leads_nowhere_is_replaced() {
    let disk = SimulatedDisk::new(0);
    let mut log = log_of(&disk);
    make_checkpoint(&disk, &mut log, 1).unwrap();
    let old = read_control(&disk).unwrap().unwrap();
    let contents = disk.contents(NAME).unwrap();
    for epoch in EPOCHS + 1..EPOCHS + 5 {
        append_at(&mut log, epoch, 0, &set(epoch, b"key", &[0; 3000])).unwrap();
    }
    make_checkpoint(&disk, &mut log, 2).unwrap();
    drop(log);
    let before = found(&disk);
    let slot = (old.generation % 2) as usize;
    disk.put(NAME, &contents);
    // Both slots are whole: this is no damage of the control file.
    assert_eq!(Rebuilt::plan(&disk).unwrap(), None);
    disk.flip(NAME, (1 - slot) * BLOCK + 100, 1);
    assert!(matches!(recover(&disk, 0), Err(LogError::Corrupt(_))));
    let rebuilt = Rebuilt::plan(&disk)
        .unwrap()
        .expect("the slot leads nowhere");
    assert!(rebuilt.control().generation > old.generation);
    rebuilt.apply(&disk).unwrap();
    assert_eq!(found(&disk), before);
    assert_eq!(check(&disk, 0).unwrap().fault, None);
    drop(reopen(&disk, Start::NewRun, options(4, 2)).unwrap());
    assert_eq!(found(&disk), before);
}
