//! The header of a copy.

/// Of which moment it is, and how much about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Wall clock, milliseconds of UNIX time.
    pub time: u64,
    /// Timestamp of the snapshot in the engine's clock: it has the commits up to this one.
    pub timestamp: u64,
    /// How many keys there are, about; and of these, with an expiry. For files of Redis, and
    /// for bars of progress.
    pub keys: u64,
    pub expiring: u64,
}
