//! Which values go to files: the one place that decides it.

/// Shorter values stay: the place of a cold one takes as much memory.
pub(crate) const LEN_MIN: u64 = 65;
/// Longer values stay: all of one is read for any part of it.
pub(crate) const LEN_MAX: u64 = 16 << 20;

/// Chooses among the records that a pass over the index comes by: each with the same chance, which is
/// the part of the memory that is to become free, and a tenth at least.
#[derive(Debug)]
pub(crate) struct Victims {
    random: u64,
    /// Of 2^32.
    chance: u64,
}

impl Victims {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: seed | 1,
            chance: 0,
        }
    }

    /// `excess` of `used` bytes are too many.
    pub(crate) fn aim(&mut self, excess: u64, used: u64) {
        let part = (u128::from(excess) << 32) / u128::from(used.max(1));
        self.chance = (part as u64).max((1 << 32) / 10);
    }

    /// No value goes from now on.
    pub(crate) fn spare_all(&mut self) {
        self.chance = 0;
    }

    /// Whether this value goes.
    pub(crate) fn takes(&mut self, _key: &[u8], len: u64) -> bool {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let draw = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        (LEN_MIN..=LEN_MAX).contains(&len) && draw < self.chance
    }
}
