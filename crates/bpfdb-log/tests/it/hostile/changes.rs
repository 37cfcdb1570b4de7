//! What an attacker may change of a directory that is right.

use bpfdb_log::checkpoint;
use bpfdb_log::{BLOCK, segment};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::it::common::files::{Files, seal_directory};

/// Where the numbers stand: see the tables of docs/formats.
const CONTROL: &[usize] = &[16, 40, 48, 56, 64, 80, 88, 96, 104, 112, 120, 128];
const SEGMENT: &[usize] = &[32, 40, 48, 56, 64, 72, 80, 88];
const BATCH: &[usize] = &[12, 32, 40, 48, 56, 64, 72, 76];
const CHECKPOINT: &[usize] = &[32, 40, 48, 56, 64, 72];
const SECTION: &[usize] = &[12, 32, 40, 48, 52];

/// Numbers at which arithmetic goes wrong, or that no loop reaches.
const EDGES: &[u64] = &[
    BLOCK as u64,
    2 * BLOCK as u64,
    1 << 16,
    1 << 26,
    (1 << 62) - 2,
    (1 << 62) - 1,
    1 << 62,
    1 << 63,
    u64::MAX - BLOCK as u64,
    u64::MAX - 1,
    u64::MAX,
];

/// A structure of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Structure {
    /// Both slots.
    Control,
    Segment,
    /// The nth of a segment.
    Batch(usize),
    CheckpointHeader,
    CheckpointFooter,
    /// The first block of entries.
    Section,
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Number(Structure, Index, Index, u64),
    Byte(Index, Index, u8),
    Truncate(Index, Index),
    Remove(Index),
    /// Another number in its name, where a copy of it stands then.
    Rename(Index, u64),
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..24_u64,
        3 => select(EDGES),
        1 => any::<u64>(),
    ]
}

fn structure() -> impl Strategy<Value = Structure> {
    prop_oneof![
        4 => Just(Structure::Control),
        2 => Just(Structure::Segment),
        1 => (0..3_usize).prop_map(Structure::Batch),
        2 => Just(Structure::CheckpointHeader),
        2 => Just(Structure::CheckpointFooter),
        1 => Just(Structure::Section),
    ]
}

/// Numbers of structures, and files with other names.
pub(crate) fn of_numbers() -> impl Strategy<Value = Change> {
    let change = (structure(), any::<Index>(), any::<Index>(), number());
    let change = change.prop_map(|(structure, file, field, number)| {
        Change::Number(structure, file, field, number)
    });
    prop_oneof![
        8 => change,
        1 => any::<Index>().prop_map(Change::Remove),
        1 => (any::<Index>(), number()).prop_map(|(file, number)| Change::Rename(file, number)),
    ]
}

/// Bytes of files, and files that are shorter.
pub(crate) fn of_bytes() -> impl Strategy<Value = Change> {
    let any_place = any::<(Index, Index)>();
    prop_oneof![
        8 => any::<(Index, Index, u8)>().prop_map(|(file, at, byte)| Change::Byte(file, at, byte)),
        1 => any_place.prop_map(|(file, len)| Change::Truncate(file, len)),
        1 => any::<Index>().prop_map(Change::Remove),
    ]
}

impl Change {
    pub(crate) fn apply(&self, files: &mut Files) {
        if files.is_empty() {
            return;
        }
        let count = files.len();
        match self {
            Self::Number(structure, file, field, number) => {
                structure.change(files, file, field, *number)
            }
            Self::Byte(file, at, byte) => {
                let contents = &mut files[file.index(count)].1;
                if !contents.is_empty() {
                    let at = at.index(contents.len());
                    contents[at] = *byte;
                }
            }
            Self::Truncate(file, len) => {
                let contents = &mut files[file.index(count)].1;
                contents.truncate(len.index(contents.len() + 1));
            }
            Self::Remove(file) => drop(files.remove(file.index(count))),
            Self::Rename(file, number) => {
                let (name, contents) = files[file.index(count)].clone();
                let name = match ending(&name) {
                    "log" => segment::name(*number),
                    "ckpt" => checkpoint::name(*number),
                    _ => return,
                };
                files.retain(|(other, _)| *other != name);
                files.push((name, contents));
            }
        }
    }
}

/// What the name of a file ends with: that of the control file is all of it.
fn ending(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or_default()
}

impl Structure {
    fn ending(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Segment | Self::Batch(_) => "log",
            Self::CheckpointHeader | Self::CheckpointFooter | Self::Section => "ckpt",
        }
    }

    fn change(self, files: &mut Files, file: &Index, field: &Index, number: u64) {
        let files = files.iter_mut();
        let mut files: Vec<_> = files
            .filter(|(name, _)| ending(name) == self.ending())
            .collect();
        if files.is_empty() {
            return;
        }
        let place = file.index(files.len());
        let contents = &mut files[place].1;
        let last = (contents.len() / BLOCK).saturating_sub(1) * BLOCK;
        let (blocks, fields) = match self {
            Self::Control => (vec![0, BLOCK], CONTROL),
            Self::Segment => (vec![0], SEGMENT),
            Self::Batch(nth) => (vec![(1 + nth) * BLOCK], BATCH),
            Self::CheckpointHeader => (vec![0], CHECKPOINT),
            Self::CheckpointFooter => (vec![last], CHECKPOINT),
            Self::Section => (vec![BLOCK], SECTION),
        };
        let field = fields[field.index(fields.len())];
        let len = if field % 8 == 0 { 8 } else { 4 };
        for block in blocks {
            let at = block + field;
            if let Some(place) = contents.get_mut(at..at + len) {
                place.copy_from_slice(&number.to_le_bytes()[..len]);
            }
        }
    }
}

/// Applies all of them, and sets the checksums right. `chain`: also those that tie a segment to the
/// one before.
pub(crate) fn apply_all(changes: &[Change], files: &mut Files, chain: bool) {
    for change in changes {
        change.apply(files);
    }
    seal_directory(files, chain);
}
