//! How quick the disk is at the moment: 4 KiB of a file that is there, written and flushed
//! (`pwrite`, `fdatasync`), again and again. Nobody else uses the disk meanwhile.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use anyhow::{Context, Result};

use super::place::Place;
use crate::report::{Cell, Table};
use crate::sample::Sample;

const BLOCK: usize = 4096;
/// Blocks of the file, which are written in turn.
const BLOCKS: u64 = 256;
const FLUSHES: usize = 200;
const FLUSHES_QUICK: usize = 10;

/// Flushes before each round, in microseconds.
pub(crate) struct Disk {
    file: File,
    flushes: usize,
    median: Sample,
    p99: Sample,
}

impl Disk {
    pub(crate) fn new(place: &Place, quick: bool) -> Result<Self> {
        let path = place.disk("flush");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .with_context(|| format!("create {}", path.display()))?;
        // So that a flush later on writes no metadata.
        for block in 0..BLOCKS {
            file.write_all_at(&[1; BLOCK], block * BLOCK as u64)?;
        }
        file.sync_all()?;
        Ok(Self {
            file,
            flushes: if quick { FLUSHES_QUICK } else { FLUSHES },
            median: Sample::default(),
            p99: Sample::default(),
        })
    }

    /// Before a round.
    pub(crate) fn look(&mut self) -> Result<()> {
        let mut times = Vec::with_capacity(self.flushes);
        for number in 0..self.flushes {
            let place = number as u64 % BLOCKS * BLOCK as u64;
            let start = Instant::now();
            self.file.write_all_at(&[number as u8; BLOCK], place)?;
            self.file.sync_data().context("flush")?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        self.median.push(times[times.len() / 2]);
        self.p99.push(times[times.len() * 99 / 100]);
        Ok(())
    }

    /// Says below a table what was seen.
    pub(crate) fn note(&self, table: &mut Table) {
        let [median, p99] = [&self.median, &self.p99].map(|sample| Cell::figure(sample, 0).show());
        table.note(format!(
            "before each round, a flush of 4 KiB by itself took: median {median} µs, p99 {p99} µs"
        ));
    }
}
