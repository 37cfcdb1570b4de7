//! Reads all runs of a data directory, and says what is wrong with them.

use std::io;

use bpfdb_log::Disk;

use crate::format::manifest::Manifest;
use crate::format::run::{self, Contents, RunId};
use crate::format::{BLOCK, Invalid, entry};
use crate::runs::{MANIFEST, read_all, read_header, read_manifest, run_name};

/// Bytes that a disk writes as one, at least.
const SECTOR: usize = 512;

/// What is in the runs that the manifest names. Which of their values count only the engine knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub runs: u64,
    /// Values that are whole.
    pub values: u64,
    /// Of these values.
    pub bytes: u64,
    /// What is wrong, a line each; empty: nothing.
    pub faults: Vec<String>,
}

/// Also beside a server, which may write, make and remove runs meanwhile.
///
/// # Errors
/// Those of the disk.
pub fn check<D: Disk>(disk: &D) -> io::Result<Checked> {
    let mut checked = Checked::default();
    let Some(manifest) = read_manifest(disk)? else {
        return Ok(checked);
    };
    let manifest = match manifest {
        Ok(manifest) => manifest,
        Err(error) => {
            checked.faults.push(format!("{MANIFEST}: {error}"));
            return Ok(checked);
        }
    };
    for &number in &manifest.runs {
        let id = RunId {
            engine: manifest.engine,
            number,
        };
        match check_twice(disk, id) {
            Ok(found) => {
                checked.runs += 1;
                checked.values += found.contents.entries;
                checked.bytes += found.contents.bytes;
                let fault = found.fault.map(|fault| fault_of(number, fault));
                checked.faults.extend(fault);
            }
            // Runs go when no version names them.
            Err(error) => {
                if is_named(disk, &manifest, number)? {
                    checked.faults.push(fault_of(number, error));
                }
            }
        }
    }
    Ok(checked)
}

fn fault_of(number: u64, fault: impl std::fmt::Display) -> String {
    format!("{}: {fault}", run_name(number))
}

/// Whether the manifest of now names this run, as the one of before does.
fn is_named<D: Disk>(disk: &D, before: &Manifest, number: u64) -> io::Result<bool> {
    Ok(match read_manifest(disk)? {
        Some(Ok(now)) => now.engine == before.engine && now.runs.contains(&number),
        _ => true,
    })
}

#[derive(Debug)]
struct Found {
    /// What was found to be whole.
    contents: Contents,
    fault: Option<String>,
}

/// What was being written while it was read is whole the second time.
fn check_twice<D: Disk>(disk: &D, id: RunId) -> io::Result<Found> {
    match check_run(disk, id)? {
        found if found.fault.is_none() => Ok(found),
        _ => check_run(disk, id),
    }
}

fn check_run<D: Disk>(disk: &D, id: RunId) -> io::Result<Found> {
    let (file, found) = read_header(disk, id.number)?;
    if found != id {
        let fault = Invalid::Field("engine or number");
        return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
    }
    let bytes = read_all(&file)?;
    let start = bytes.len().saturating_sub(BLOCK);
    let footer = run::decode_footer(&bytes[start..]).ok();
    let footer = footer.and_then(|(found, contents)| (found == id).then_some(contents));
    Ok(walk(&bytes, footer, id))
}

/// Looks at every entry. Behind a damaged one the next one is found by what its head says of itself.
fn walk(bytes: &[u8], footer: Option<Contents>, id: RunId) -> Found {
    let end = footer.map_or(bytes.len(), |footer| footer.end as usize);
    let bytes = &bytes[..end.min(bytes.len())];
    let mut contents = Contents::default();
    // The first damage; and whether a value follows that is whole.
    let (mut damage, mut is_inside) = (None, false);
    let mut at = BLOCK;
    while at < bytes.len() {
        if let Some(entry) = entry::find(&bytes[at..], id, at as u64) {
            contents.entries += 1;
            contents.bytes += entry.len;
            is_inside |= damage.is_some();
            at += entry.size.next_multiple_of(bpfdb::COLD_GRAIN) as usize;
            contents.end = at as u64;
            continue;
        }
        let next = (at + 1).next_multiple_of(BLOCK).min(bytes.len());
        if bytes[at..next].iter().all(|&byte| byte == 0) {
            at = next;
            continue;
        }
        damage.get_or_insert(at);
        at += bpfdb::COLD_GRAIN as usize;
    }
    let fault = match (footer, damage) {
        (Some(footer), at) if footer.entries != contents.entries => {
            let at = at.unwrap_or(contents.end as usize);
            let (found, all) = (contents.entries, footer.entries);
            Some(format!("{found} of {all} values are whole; damage at {at}"))
        }
        // What was being written when the server ended may be torn, and was never named.
        (None, Some(at)) if is_inside || !is_torn(bytes, at, id) => Some(format!("damage at {at}")),
        _ => None,
    };
    Found { contents, fault }
}

/// Whether what is not whole at `at` lacks a sector: of one that was not written zeros are read. (A value
/// may have so many zeros itself. Then it is known for damaged when its run is closed.)
fn is_torn(bytes: &[u8], at: usize, id: RunId) -> bool {
    let is_missing = |sector: &[u8]| sector.iter().all(|&byte| byte == 0);
    let Some(entry) = entry::head(&bytes[at..], id, at as u64) else {
        // Its head is missing.
        return is_missing(&bytes[at.saturating_sub(SECTOR)..at]);
    };
    let end = at.saturating_add(usize::try_from(entry.size).unwrap_or(usize::MAX));
    let first = at.next_multiple_of(SECTOR).min(bytes.len());
    end > bytes.len() || bytes[first..end.max(first)].chunks(SECTOR).any(is_missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: RunId = RunId {
        engine: 5,
        number: 2,
    };

    /// Three entries behind a header, and where the last two begin.
    fn run() -> (Vec<u8>, [usize; 2]) {
        let mut bytes = run::encode_header(RUN);
        let mut places = Vec::new();
        for value in 1..=3 {
            let (at, value) = (bytes.len() as u64, [value; 3000]);
            let place = entry::encode(RUN, at, b"key", 0, 1, &value, &mut bytes);
            places.push(place.offset as usize);
        }
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        (bytes, [places[1], places[2]])
    }

    fn found(bytes: &[u8]) -> (u64, bool) {
        let found = walk(bytes, None, RUN);
        (found.contents.entries, found.fault.is_some())
    }

    #[test]
    fn a_torn_end_is_no_damage_and_a_flipped_bit_is() {
        let (whole, [second, third]) = run();
        assert_eq!(found(&whole), (3, false));
        for at in [second + 1000, third + 1000, third + 100, third + 30] {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            assert_eq!(found(&flipped), (2, true), "bit at {at}");
        }
        let sector = (third + 1000).next_multiple_of(SECTOR);
        let mut torn = whole.clone();
        torn[sector..sector + SECTOR].fill(0);
        assert_eq!(found(&torn), (2, false));
        // With a whole one behind it that is no end.
        let sector = (second + 1000).next_multiple_of(SECTOR);
        let mut torn = whole.clone();
        torn[sector..sector + SECTOR].fill(0);
        assert_eq!(found(&torn), (2, true));
        assert_eq!(found(&whole[..third + 500]), (2, false));
    }
}
