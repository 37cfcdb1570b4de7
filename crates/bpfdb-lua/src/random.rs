//! The generator of drand48 (POSIX): scripts get the same numbers from it as in Redis.

use std::cell::Cell;

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const ADDEND: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;
/// The lower bits of each seed.
const SEED_LOW: u64 = 0x330E;

/// Numbers that scripts draw. States of Lua may share them.
#[derive(Debug)]
pub struct Random(Cell<u64>);

impl Default for Random {
    /// As after the seed 0.
    fn default() -> Self {
        Self(Cell::new(SEED_LOW))
    }
}

impl Random {
    /// What these numbers are after.
    pub(crate) fn state(&self) -> u64 {
        self.0.get()
    }

    pub(crate) fn go_on_from(&self, state: u64) {
        self.0.set(state);
    }

    pub(crate) fn seed(&self, seed: u32) {
        self.0.set(u64::from(seed) << 16 | SEED_LOW);
    }

    /// 31 bits.
    pub(crate) fn next(&self) -> u32 {
        let value = self.0.get().wrapping_mul(MULTIPLIER).wrapping_add(ADDEND) & MASK;
        self.0.set(value);
        (value >> 17) as u32
    }
}
