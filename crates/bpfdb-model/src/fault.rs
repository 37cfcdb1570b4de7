//! Mistakes that an engine could make, for testing the tests.

/// One deliberate mistake of a [`Model`](crate::Model).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// GET ignores exclusive locks and sees what others have not committed.
    DirtyRead,
    /// SET and DELETE ignore exclusive locks.
    DirtyWrite,
    /// GET inside a transaction takes no lock.
    NoReadLock,
    /// GET inside a transaction takes no lock if it finds nothing.
    NoLockOnAbsence,
    /// A reader may become the writer although there are other readers.
    UpgradeIgnoresReaders,
    /// Auto-commit SET and DELETE look for an exclusive lock only.
    AutoCommitIgnoresReaders,
    /// A read-only transaction sees the newest versions.
    SnapshotMoves,
    /// A read-only transaction misses the last commit before its BEGIN.
    SnapshotStale,
    /// Of several changes, COMMIT makes only the first one visible to
    /// snapshots that begin before the next commit.
    CommitInParts,
    /// Versions are pruned although a running snapshot can see them.
    PruneTooEarly,
    /// One version more than allowed is kept.
    VersionTooMany,
    /// ROLLBACK keeps the changes.
    RollbackKeepsChanges,
    /// COMMIT of a failed transaction commits what it had done before.
    FailedCommits,
    /// ROLLBACK forgets to release shared locks.
    LeakedLock,
    /// A session that closes keeps its locks.
    CloseKeepsLocks,
    /// What has expired is seen until it is swept.
    ExpiredIsSeen,
    /// A transaction judges by the time of each operator.
    TimeMoves,
    /// SET leaves the expiry that the key had.
    SetKeepsExpiry,
    /// SET leaves the type that the key had.
    SetKeepsType,
    /// A read of a string returns a value of any type.
    AnyTypeIsRead,
    /// The sweeper removes what has expired now, though an open transaction
    /// judges by an earlier time.
    SweepTooEarly,
    /// A read-write transaction scans, and others may add keys behind it.
    ScanUnprotected,
}

impl Fault {
    pub const ALL: [Fault; 22] = [
        Fault::DirtyRead,
        Fault::DirtyWrite,
        Fault::NoReadLock,
        Fault::NoLockOnAbsence,
        Fault::UpgradeIgnoresReaders,
        Fault::AutoCommitIgnoresReaders,
        Fault::SnapshotMoves,
        Fault::SnapshotStale,
        Fault::CommitInParts,
        Fault::PruneTooEarly,
        Fault::VersionTooMany,
        Fault::RollbackKeepsChanges,
        Fault::FailedCommits,
        Fault::LeakedLock,
        Fault::CloseKeepsLocks,
        Fault::ExpiredIsSeen,
        Fault::TimeMoves,
        Fault::SetKeepsExpiry,
        Fault::SetKeepsType,
        Fault::AnyTypeIsRead,
        Fault::SweepTooEarly,
        Fault::ScanUnprotected,
    ];
}
