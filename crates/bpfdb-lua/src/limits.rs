//! What a call may take.

use std::time::Duration;

/// Limits of a [`Vm`](crate::Vm).
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the Lua state, with all that it has compiled. What a call hands out (the arguments
    /// of a command, its own reply) may take as many once more each: Lua keeps a string once that
    /// stands in many places, and outside of it there are copies.
    pub memory: usize,
    /// How long a call runs before it is left for others.
    pub slice: Duration,
}

impl Limits {
    /// [`Limits::memory`] unless something else is said.
    pub const MEMORY: usize = 64 << 20;
    /// About 5 µs: a look at the clock takes 25 ns.
    pub const INSTRUCTIONS_BETWEEN_LOOKS: u32 = 1000;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: Self::MEMORY,
            slice: Duration::from_micros(500),
        }
    }
}
