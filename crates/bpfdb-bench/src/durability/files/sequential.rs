//! How quick the disk is by itself with as many bytes as a checkpoint has: a file is written from
//! its beginning to its end and flushed (`write`, `fdatasync`), and read again when the page cache
//! has nothing of it.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use super::store::forget;
use crate::random::Random;

const PIECE: usize = 1 << 20;
/// A larger file would tell no more, and a smaller one little of a disk that is throttled.
const MOST: u64 = 1 << 30;
const LEAST: u64 = 16 << 20;
const SEED: u64 = 6;

/// Megabytes per second.
pub(super) struct Sequential {
    pub(super) written: f64,
    pub(super) read: f64,
}

/// Measures the disk at `path`, which is taken for a new file of nearly as many bytes, and removed.
pub(super) fn measure(path: &Path, bytes: u64) -> Result<Sequential> {
    let pieces = bytes.clamp(LEAST, MOST) / PIECE as u64;
    let told = || format!("measure the disk with {}", path.display());
    let written = write(path, pieces).with_context(told)?;
    forget(path)?;
    let read = read(path).with_context(told)?;
    fs::remove_file(path).with_context(told)?;
    let rate = |seconds: f64| pieces as f64 * PIECE as f64 / 1e6 / seconds;
    Ok(Sequential {
        written: rate(written),
        read: rate(read),
    })
}

/// Seconds. No piece is as another one, for disks that store the same bytes once.
fn write(path: &Path, pieces: u64) -> Result<f64> {
    let mut piece = Random::new(SEED).text(PIECE as u32).into_bytes();
    let mut file = File::create(path)?;
    let begun = Instant::now();
    for number in 0..pieces {
        for block in piece.chunks_mut(4096) {
            block[..8].copy_from_slice(&number.to_le_bytes());
        }
        file.write_all(&piece)?;
    }
    file.sync_data()?;
    Ok(begun.elapsed().as_secs_f64())
}

fn read(path: &Path) -> Result<f64> {
    let mut piece = vec![0; PIECE];
    let mut file = File::open(path)?;
    let begun = Instant::now();
    while file.read(&mut piece)? > 0 {}
    Ok(begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_two_rates() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sequential");
        let found = measure(&path, LEAST).expect("measured");
        assert!(found.written > 0.0 && found.read > 0.0);
        assert!(!path.exists());
    }
}
