//! LZF, in which Redis compresses: runs of bytes, and references to what was written before,
//! at most 8 KiB back. So long strings pass through a window.
//!
//! Invariants
//!  1. The window has the last `REACH` bytes, or all if there are fewer.
//!  2. No more than `len` bytes are given, whatever the input says.

use crate::error::{Result, damaged};
use crate::source::{Input, Source};

/// How far back a reference goes, bytes.
const REACH: usize = 1 << 13;
/// Bytes that are given at once.
const CHUNK: usize = 1 << 16;
/// A reference of this many bytes, and two, has one more byte of length.
const LONG: usize = 7;

struct Window<'a> {
    bytes: Vec<u8>,
    /// Of these, how many were shown.
    shown: usize,
    /// Bytes that are still to come.
    left: u64,
    show: &'a mut dyn FnMut(&[u8]) -> Result<()>,
}

impl Window<'_> {
    fn is_room_for(&self, count: usize) -> bool {
        count as u64 <= self.left
    }

    fn put(&mut self, byte: u8) {
        self.bytes.push(byte);
        self.left -= 1;
    }

    fn show_some(&mut self) -> Result<()> {
        if self.bytes.len() >= REACH + CHUNK {
            self.show_all()?;
            self.bytes.drain(..self.bytes.len() - REACH);
            self.shown = self.bytes.len();
        }
        Ok(())
    }

    fn show_all(&mut self) -> Result<()> {
        let new = &self.bytes[self.shown..];
        if !new.is_empty() {
            (self.show)(new)?;
        }
        self.shown = self.bytes.len();
        Ok(())
    }
}

/// Shows the `len` bytes that the next `stored` bytes stand for, in parts.
pub(super) fn decompress<I: Input>(
    source: &mut Source<I>,
    stored: u64,
    len: u64,
    show: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let begin = source.offset();
    let mut window = Window {
        bytes: Vec::new(),
        shown: 0,
        left: len,
        show,
    };
    let mut left = stored;
    while left > 0 {
        let control = source.byte()?;
        let taken = 1 + if control < 32 {
            run(source, usize::from(control) + 1, left - 1, &mut window)?
        } else {
            refer(source, control, left - 1, &mut window)?
        };
        left -= taken;
        window.show_some()?;
    }
    if window.left > 0 {
        return Err(damaged(
            begin,
            "compressed bytes give fewer than they should",
        ));
    }
    window.show_all()
}

/// Copies so many bytes of the input: how many were taken of it.
fn run<I: Input>(
    source: &mut Source<I>,
    count: usize,
    left: u64,
    window: &mut Window<'_>,
) -> Result<u64> {
    if count as u64 > left || !window.is_room_for(count) {
        return Err(damaged(
            source.offset(),
            "a run of compressed bytes is too long",
        ));
    }
    for _ in 0..count {
        window.put(source.byte()?);
    }
    Ok(count as u64)
}

/// Copies what a reference means, which may overlap itself: how much was taken of the input.
fn refer<I: Input>(
    source: &mut Source<I>,
    control: u8,
    left: u64,
    window: &mut Window<'_>,
) -> Result<u64> {
    let at = source.offset();
    let mut count = usize::from(control >> 5);
    let taken = 1 + u64::from(count == LONG);
    if taken > left {
        return Err(damaged(at, "a reference in compressed bytes is not whole"));
    }
    if count == LONG {
        count += usize::from(source.byte()?);
    }
    let low = source.byte()?;
    let back = (usize::from(control & 0x1f) << 8 | usize::from(low)) + 1;
    let start = window.bytes.len().checked_sub(back);
    let Some(start) = start.filter(|_| window.is_room_for(count + 2)) else {
        return Err(damaged(at, "a reference in compressed bytes leads nowhere"));
    };
    for i in start..start + count + 2 {
        window.put(window.bytes[i]);
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Must take all of `bytes`.
    fn decompressed(bytes: &[u8], len: u64) -> Option<Vec<u8>> {
        let mut source = Source::plain(bytes);
        let mut out = Vec::new();
        let stored = bytes.len() as u64;
        decompress(&mut source, stored, len, &mut |part| {
            out.extend_from_slice(part);
            Ok(())
        })
        .ok()?;
        Some(out)
    }

    #[test]
    fn runs_and_references() {
        assert_eq!(decompressed(&[1, b'a', b'b'], 2), Some(b"ab".to_vec()));
        // One byte, then eight times the byte before.
        assert_eq!(decompressed(&[0, b'a', 6 << 5, 0], 9), Some(b"a".repeat(9)));
        assert_eq!(
            decompressed(&[0, b'a', 7 << 5, 10, 0], 20),
            Some(b"a".repeat(20))
        );
    }

    #[test]
    fn the_window_moves_on() {
        // 8192 different bytes in runs of 32, then references to exactly 8192 back.
        let bytes: Vec<u8> = (0..8192u32).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut input = Vec::new();
        for run in bytes.chunks(32) {
            input.push(31);
            input.extend_from_slice(run);
        }
        const TIMES: usize = 1000;
        for _ in 0..TIMES {
            input.extend_from_slice(&[7 << 5 | 0x1f, 248, 0xff]);
        }
        let mut wanted = bytes;
        for i in 0..TIMES * 257 {
            wanted.push(wanted[i]);
        }
        assert_eq!(decompressed(&input, wanted.len() as u64), Some(wanted));
    }

    #[test]
    fn what_is_not_whole() {
        for (bytes, len) in [
            (&[1, b'a'][..], 2),
            (&[0, b'a', 1 << 5], 4),
            (&[0, b'a', 7 << 5], 4),
            (&[0, b'a', 7 << 5, 1], 10),
            (&[0, b'a', 1 << 5, 1], 4),
            (&[0, b'a'], 2),
            (&[1, b'a', b'b'], 1),
        ] {
            assert_eq!(decompressed(bytes, len), None, "{bytes:?}");
        }
    }
}
