//! What a call may take.

use std::time::Duration;

/// Limits of a [`Vm`](crate::Vm).
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the Lua state, with all that it has compiled.
    pub memory: usize,
    /// How long a call runs before it is left for others.
    pub slice: Duration,
    /// The longest string that a command may be given or a function of ours may build, bytes.
    pub string: usize,
}

impl Limits {
    /// About 5 µs: a look at the clock takes 25 ns.
    pub const INSTRUCTIONS_BETWEEN_LOOKS: u32 = 1000;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            slice: Duration::from_micros(500),
            string: 512 << 20,
        }
    }
}
