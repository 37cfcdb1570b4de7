//! A point in time that a log has recorded.

/// An epoch that is complete. The earlier epoch comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// All commits with a timestamp up to this.
    pub epoch: u64,
    /// When it was written, by the wall clock: nanoseconds of UNIX time.
    pub wall: u64,
}
