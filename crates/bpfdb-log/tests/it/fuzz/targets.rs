//! The readers, and what must hold whatever they read. Each returns what came of it.

use bpfdb_log::batch::{self, BatchView};
use bpfdb_log::checkpoint::{CheckpointReader, Contents, Mark};
use bpfdb_log::control::{Control, NAME};
use bpfdb_log::reader::read_control;
use bpfdb_log::record::{Entry, Record, Records, Value, encode_commit, encode_part};
use bpfdb_log::segment::SegmentHeader;
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_log::{
    AlignedBuffer, Beginnings, Cut, Disk, Follower, LogError, Rebuilt, Recovery, Until, VERSION,
    check, check_retained, copy_until,
};

use crate::it::common::bounded::Bounded;
use crate::it::common::files::disk_of;
use crate::it::common::{options, recover_all};
use crate::it::fuzz::archive::unpack;
use crate::it::fuzz::mutate::Form;

pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) corpus: &'static str,
    pub(crate) form: Form,
    pub(crate) run: fn(&[u8]) -> String,
    /// So many outcomes the short test finds at least, or it does not get far.
    pub(crate) outcomes: usize,
}

const fn directory(name: &'static str, run: fn(&[u8]) -> String, outcomes: usize) -> Target {
    Target {
        name,
        corpus: "directory",
        form: Form::Directory,
        run,
        outcomes,
    }
}

pub(crate) const TARGETS: &[Target] = &[
    Target {
        name: "control",
        corpus: "control",
        form: Form::Block,
        run: control,
        outcomes: 4,
    },
    Target {
        name: "segment",
        corpus: "segment",
        form: Form::Block,
        run: segment,
        outcomes: 6,
    },
    Target {
        name: "batch",
        corpus: "batch",
        form: Form::Batch,
        run: batch,
        outcomes: 4,
    },
    Target {
        name: "records",
        corpus: "records",
        form: Form::Plain,
        run: records,
        outcomes: 15,
    },
    directory("recovery", recovery, 15),
    directory("checking", checking, 15),
    directory("tail", tail, 15),
    directory("point_in_time", point_in_time, 15),
    directory("retained", retained, 15),
    directory("copying", copying, 15),
    directory("cutting", cutting, 15),
    directory("checkpoint", checkpoint, 15),
    directory("rebuilding", rebuilding, 10),
];

/// A text without its numbers, so that outcomes of one kind are one.
fn kind(text: impl ToString) -> String {
    let text = text.to_string();
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

fn control(bytes: &[u8]) -> String {
    match Control::decode(bytes) {
        Ok(control) => {
            // What is written has the newest version.
            let again = Control {
                version: VERSION,
                ..control
            };
            assert_eq!(Control::decode(&control.encode()), Ok(again));
            format!("closed {}", control.closed)
        }
        Err(why) => kind(why),
    }
}

fn segment(bytes: &[u8]) -> String {
    match SegmentHeader::decode(bytes) {
        Ok(header) => {
            assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
            format!("cut {}", header.cut != 0)
        }
        Err(why) => kind(why),
    }
}

fn batch(bytes: &[u8]) -> String {
    let Some((seed, bytes)) = bytes.split_first_chunk() else {
        return "nothing".into();
    };
    let seed = u32::from_le_bytes(*seed);
    match BatchView::decode(bytes, seed) {
        Ok(batch) => {
            let mut again = AlignedBuffer::zeroed(0);
            let sum = batch::encode(
                &mut again,
                batch.header,
                &batch.positions(),
                batch.payload,
                seed,
            );
            assert_eq!(sum, batch.header.checksum);
            assert_eq!(
                BatchView::decode(&again, seed).expect("encoded just now"),
                batch
            );
            format!("rings {}", batch.header.rings)
        }
        Err(why) => kind(why),
    }
}

fn records(bytes: &[u8]) -> String {
    let mut outcome = String::new();
    for record in Records::new(bytes) {
        outcome += &match record {
            Ok((_, Record::Commit(commit))) => {
                let entries: Result<Vec<Entry<'_>>, _> = commit.entries().collect();
                match entries {
                    Ok(entries) => again(commit.timestamp, &entries),
                    Err(why) => kind(why),
                }
            }
            Ok((_, Record::Part(part))) => {
                let mut bytes = Vec::new();
                encode_part(&part, &mut bytes);
                let (_, found) = Records::new(&bytes).next().expect("one").expect("good");
                assert_eq!(found, Record::Part(part));
                "part".into()
            }
            Err(why) => kind(why),
        };
    }
    outcome
}

/// Entries that are written again are the same.
fn again(timestamp: u64, entries: &[Entry<'_>]) -> String {
    let mut bytes = Vec::new();
    encode_commit(timestamp, entries, &mut bytes);
    let Some(Ok((_, Record::Commit(found)))) = Records::new(&bytes).next() else {
        panic!("no commit");
    };
    assert!(found.entries().eq(entries.iter().map(|entry| Ok(*entry))));
    let letter = |entry: &Entry<'_>| match entry.value {
        Value::Deleted => 'd',
        Value::Inline(_) => 'i',
        Value::Typed(..) => 't',
        Value::Large { .. } => 'l',
    };
    entries.iter().map(letter).collect()
}

/// One at which a reader does not look for ever, whatever its files say.
fn disk(bytes: &[u8]) -> Bounded {
    Bounded::new(disk_of(&unpack(bytes)))
}

/// Damage is reported as such, and as nothing else.
fn told(error: &LogError) -> String {
    let fine = matches!(
        error,
        LogError::Corrupt(_) | LogError::Gone { .. } | LogError::TooEarly(_) | LogError::Refused(_)
    );
    assert!(fine, "{error}");
    kind(error)
}

fn times<D: Disk>(disk: &D) -> Result<Vec<u64>, LogError> {
    let (commits, end) = recover_all(disk, 0)?;
    // A control file that lies about where the log ends may have the end reported elsewhere.
    if let Err(error) = Recovery::end_of(disk.clone()) {
        told(&error);
    }
    let times: Vec<_> = commits.iter().map(|commit| commit.timestamp).collect();
    assert!(times.is_sorted());
    assert!(times.last().is_none_or(|last| *last <= end.epoch));
    assert!(end.epoch <= end.greatest_timestamp);
    Ok(times)
}

fn recovery(bytes: &[u8]) -> String {
    match times(&disk(bytes)) {
        Ok(times) => format!("{} commits", times.len()),
        Err(error) => told(&error),
    }
}

fn checking(bytes: &[u8]) -> String {
    let disk = disk(bytes);
    let report = check(&disk, 0).expect("damage is in the report");
    let commits: u64 = report.runs.iter().map(|run| run.commits).sum();
    match times(&disk) {
        Ok(times) => {
            assert_eq!((report.fault, commits), (None, times.len() as u64));
            assert!(report.durable.sequence <= report.end.sequence);
            format!("{commits} of {} batches", report.end.sequence)
        }
        Err(error) => {
            let fault = report.fault.expect("recovery found one");
            assert_eq!(LogError::Corrupt(fault).to_string(), error.to_string());
            format!("{commits} {}", kind(error))
        }
    }
}

fn tail(bytes: &[u8]) -> String {
    let disk = disk(bytes);
    let mut found = Vec::new();
    let mut follow = || -> Result<(), LogError> {
        let mut follower = Follower::new(disk.clone(), None, None)?;
        while let Some(commit) = follower.next_commit()? {
            for value in &commit.large_values {
                follower.read_large(value, |_| ())?;
            }
            found.push(commit.timestamp);
        }
        Ok(())
    };
    let followed = follow();
    assert!(found.is_sorted());
    if let Ok(times) = times(&disk)
        && !has_other_beginning(&disk)
    {
        let is_part = times.windows(found.len().max(1)).any(|part| part == found);
        assert!(is_part || found.is_empty(), "{found:?} of {times:?}");
    }
    match followed {
        Ok(()) => format!("{} commits", found.len()),
        Err(error) => format!("{} {}", found.len(), told(&error)),
    }
}

/// Whether a follower of the log may begin elsewhere than a start.
fn has_other_beginning(disk: &Bounded) -> bool {
    let control = read_control(disk).expect("it was read before");
    control.is_some_and(|control| {
        let found = Beginnings::find(disk, &control).expect("nothing is wrong with the disk");
        let mut marks = found.list.iter().map(|one| one.mark);
        marks.any(|mark| mark != control.checkpoint)
    })
}

fn point_in_time(bytes: &[u8]) -> String {
    let disk = disk(bytes);
    let all = times(&disk);
    let mut outcome = String::new();
    for until in [Until::Timestamp(4), Until::Wall(45), Until::Wall(u64::MAX)] {
        let found = Recovery::bounded(disk.clone(), 0, until)
            .and_then(|recovery| recovery.collect::<Result<Vec<_>, _>>());
        outcome += &match found {
            Ok(commits) => {
                let found: Vec<_> = commits.iter().map(|commit| commit.timestamp).collect();
                if let Ok(all) = &all {
                    assert!(all.starts_with(&found), "{found:?} of {all:?}");
                }
                format!("{} ", found.len())
            }
            Err(error) => told(&error),
        };
    }
    outcome
}

/// What the check calls the earliest point is one of those from which the log can be read; and none
/// has what is later than it says.
fn retained(bytes: &[u8]) -> String {
    let disk = disk(bytes);
    let control = match read_control(&disk) {
        Ok(Some(control)) => control,
        Ok(None) => return "no log".into(),
        Err(error) => return told(&error),
    };
    let found = Beginnings::find(&disk, &control).expect("nothing is wrong with the disk");
    let report = match check_retained(&disk) {
        Ok(report) => report,
        Err(error) => return told(&error),
    };
    let mut marks = found.list.iter().filter_map(|one| one.mark);
    assert!(marks.all(|mark| mark.start <= mark.end), "{found:?}");
    let begins_at = |moment| found.list.iter().any(|one| one.earliest == moment);
    assert!(report.earliest.is_none_or(begins_at), "{report:?}");
    assert!(report.beginnings.iter().all(|one| found.list.contains(one)));
    let damaged: Vec<String> = report.damaged.iter().map(kind).collect();
    let older = report.beginnings.len();
    format!("{older} {} {damaged:?}", report.earliest.is_some())
}

/// A copy is a log that is whole, and has no commit that is later than what was asked for.
fn copying(bytes: &[u8]) -> String {
    let disk = disk(bytes);
    let mut outcome = String::new();
    for (until, last) in [
        (None, u64::MAX),
        (Some(Until::Timestamp(9)), 9),
        (Some(Until::Wall(45)), u64::MAX),
    ] {
        let new = SimulatedDisk::new(1);
        outcome += &match copy_until(&disk, &new, until, options(8, 4), |_| ()) {
            Ok(copied) => {
                let times = times(&new).expect("it was written just now");
                assert_eq!(copied.commits, times.len() as u64);
                assert!(copied.moment.epoch <= last, "{copied:?} until {last}");
                assert!(
                    times.iter().all(|time| *time <= last),
                    "{times:?} until {last}"
                );
                format!("{} ", times.len())
            }
            Err(error) => told(&error),
        };
    }
    outcome
}

/// A log that is cut where it is whole has just what check has counted, and can be started.
fn cutting(bytes: &[u8]) -> String {
    let disk = disk(bytes);
    let report = check(&disk, 0).expect("damage is in the report");
    let (Some(fault), Some(place)) = (&report.fault, report.whole_up_to) else {
        return format!("{:?}", report.fault.is_some());
    };
    let cut = match Cut::plan(&disk, 0, place) {
        Ok(cut) => cut,
        Err(error) => return told(&error),
    };
    let readable = cut.lost().commits;
    match cut.apply(&disk, Some("cut-1"), 0) {
        Ok(()) => {
            let times = times(&disk).expect("it was cut where it is whole");
            let commits: u64 = report.runs.iter().map(|run| run.commits).sum();
            assert_eq!(times.len() as u64, commits);
            format!("{commits} {readable} {}", kind(fault))
        }
        Err(error) => told(&error),
    }
}

/// Whoever reads all of a checkpoint finds what its footer says, or that it is damaged.
fn checkpoint(bytes: &[u8]) -> String {
    let disk = disk(bytes);
    let read = || -> Result<String, LogError> {
        let Some(control) = read_control(&disk)? else {
            return Ok("no log".into());
        };
        match control.checkpoint {
            Some(mark) => entries_of(&disk, &control, mark),
            None => Ok("no checkpoint".into()),
        }
    };
    read().unwrap_or_else(|error| told(&error))
}

fn entries_of(disk: &Bounded, control: &Control, mark: Mark) -> Result<String, LogError> {
    let verified = CheckpointReader::open(disk, control.log, mark)?.verify();
    let mut reader = CheckpointReader::open(disk, control.log, mark)?;
    let expected = reader.footer().entries;
    let (mut count, mut invalid) = (0, 0);
    while let Some(block) = reader.next_block()? {
        match block.contents()? {
            Contents::Large(_) => count += 1,
            Contents::LargeBytes(_) => {}
            Contents::Entries(entries, said) => {
                count += u64::from(said);
                invalid += entries.filter(Result::is_err).count();
            }
        }
    }
    verified?;
    assert_eq!(count, expected);
    Ok(format!("{count} entries, {invalid} invalid"))
}

/// A control file that is made anew is one that readers take, whatever else is damaged.
fn rebuilding(bytes: &[u8]) -> String {
    let disk = disk(bytes);
    let had_one = disk.remove(NAME).is_ok();
    match Rebuilt::plan(&disk) {
        Ok(None) => format!("nothing {had_one}"),
        Ok(Some(rebuilt)) => {
            rebuilt
                .apply(&disk)
                .expect("nothing is wrong with the disk");
            let control = read_control(&disk).expect("valid").expect("there");
            assert_eq!(&control, rebuilt.control());
            assert_eq!(Rebuilt::plan(&disk).expect("valid"), None);
            match times(&disk) {
                Ok(times) => format!(
                    "{} commits, {:?}",
                    times.len(),
                    control.checkpoint.is_some()
                ),
                Err(error) => told(&error),
            }
        }
        Err(error) => told(&error),
    }
}
