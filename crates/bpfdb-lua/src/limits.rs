//! Limits of a call.

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
    /// About half a microsecond of plain ones; a look takes 50 ns.
    pub const INSTRUCTIONS_BETWEEN_LOOKS: u32 = 100;
    /// The same in a state of more than [`Limits::LARGE`] bytes, where one instruction may join, or
    /// compare, strings of as many, which takes milliseconds.
    pub const INSTRUCTIONS_BETWEEN_LOOKS_WHEN_LARGE: u32 = 10;
    /// Bytes of a state in which strings may be long.
    pub const LARGE: usize = 8 << 20;

    /// Instructions between two looks at the clock in a state of so many bytes.
    pub(crate) fn between_looks(bytes: usize) -> u32 {
        match bytes > Self::LARGE {
            true => Self::INSTRUCTIONS_BETWEEN_LOOKS_WHEN_LARGE,
            false => Self::INSTRUCTIONS_BETWEEN_LOOKS,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: Self::MEMORY,
            slice: Duration::from_micros(500),
        }
    }
}
