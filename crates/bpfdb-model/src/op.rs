//! Operators, their answers and their Errors, as tests write them.

use std::fmt;

/// One call of one operator.
#[derive(Clone, PartialEq, Eq)]
pub enum Op {
    Begin,
    BeginReadOnly,
    Get(Vec<u8>),
    GetForUpdate(Vec<u8>),
    Set(Vec<u8>, Vec<u8>),
    /// SET of a value that expires after so many milliseconds.
    SetFor(Vec<u8>, Vec<u8>, u64),
    /// SET of a value of a type that is no string, by its number; it has a byte at least.
    SetTyped(Vec<u8>, u8, Vec<u8>),
    /// GET of a value of any type.
    GetAny(Vec<u8>),
    /// GET, of which only the expiry is told.
    Expiry(Vec<u8>),
    Delete(Vec<u8>),
    /// All keys that have a value.
    Scan,
    Commit,
    Rollback,
    /// Close the session, whatever it has open, and open a new one.
    Reconnect,
    /// So many milliseconds go by, for everybody.
    Pass(u64),
    /// All clean-up that is left to be done is done.
    Sweep,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Answer {
    Done,
    Value(Vec<u8>),
    /// The number of its type, and a value that is no string.
    Typed(u8, Vec<u8>),
    /// GET or DELETE found no value.
    Absent,
    /// Milliseconds until a value expires; less than 0 if it has, for others
    /// than a transaction that judges by an earlier time. (A value that never
    /// expires is Done.)
    Left(i64),
    /// In order.
    Keys(Vec<Vec<u8>>),
}

pub type Outcome = Result<Answer, Error>;

macro_rules! errors {
    ($($variant:ident $name:literal,)*) => {
        /// The Errors that a correct caller can meet, named as in the ABI.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Error {
            $($variant,)*
            /// Any other; a test that meets it has found a bug.
            Other(u32),
        }

        impl Error {
            pub const NAMED: &[(Error, &str)] = &[$((Error::$variant, $name),)*];
        }
    };
}

errors! {
    Conflict "CONFLICT",
    VersionsFull "VERSIONS_FULL",
    OutOfMemory "OUT_OF_MEMORY",
    MemoryPending "MEMORY_PENDING",
    TooManyLocks "TOO_MANY_LOCKS",
    KeyTooLarge "KEY_TOO_LARGE",
    ValueTooLarge "VALUE_TOO_LARGE",
    WrongState "WRONG_STATE",
    ReadOnly "READ_ONLY",
    RolledBack "ROLLED_BACK",
    TimedOut "TIMED_OUT",
    NoSession "NO_SESSION",
    SnapshotTooOld "SNAPSHOT_TOO_OLD",
    WrongType "WRONG_TYPE",
}

impl Error {
    pub fn from_name(name: &str) -> Option<Error> {
        let found = Error::NAMED.iter().find(|(_, n)| *n == name);
        found.map(|(error, _)| *error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match Error::NAMED.iter().find(|(error, _)| error == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{self:?}"),
        }
    }
}

impl std::error::Error for Error {}

/// What is held at the moment; all of it returns to zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Records, those kept only for a lock or as a deleted value included.
    pub records: u64,
    /// Transaction locks.
    pub locks: u64,
    /// Open transactions, read-only and failed ones included.
    pub transactions: u64,
    /// Versions older than the newest of their record.
    pub history: u64,
    /// Pieces of storage memory that belong to a key, a value or a history.
    pub slots: u64,
}

impl Op {
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Op::Get(key) | Op::GetForUpdate(key) | Op::GetAny(key) | Op::Expiry(key) => Some(key),
            Op::Set(key, _) | Op::SetFor(key, ..) | Op::SetTyped(key, ..) => Some(key),
            Op::Delete(key) => Some(key),
            _ => None,
        }
    }
}

/// Bytes for people: text as it is, long ones shortened to their start and
/// length.
struct Shown<'a>(&'a [u8]);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        const SHOWN: usize = 24;
        let start = &self.0[..self.0.len().min(SHOWN)];
        write!(f, "\"{}\"", start.escape_ascii())?;
        match self.0.len() {
            len if len > SHOWN => write!(f, "+{}", len - SHOWN),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Op::Begin => write!(f, "BEGIN"),
            Op::BeginReadOnly => write!(f, "BEGIN READ ONLY"),
            Op::Get(key) => write!(f, "GET {:?}", Shown(key)),
            Op::GetForUpdate(key) => write!(f, "GET FOR UPDATE {:?}", Shown(key)),
            Op::Set(key, value) => write!(f, "SET {:?} {:?}", Shown(key), Shown(value)),
            Op::SetFor(key, value, time) => {
                write!(f, "SET {:?} {:?} FOR {time} MS", Shown(key), Shown(value))
            }
            Op::SetTyped(key, kind, value) => {
                write!(f, "SET {:?} {:?} OF TYPE {kind}", Shown(key), Shown(value))
            }
            Op::GetAny(key) => write!(f, "GET ANY {:?}", Shown(key)),
            Op::Expiry(key) => write!(f, "EXPIRY {:?}", Shown(key)),
            Op::Delete(key) => write!(f, "DELETE {:?}", Shown(key)),
            Op::Scan => write!(f, "SCAN"),
            Op::Commit => write!(f, "COMMIT"),
            Op::Rollback => write!(f, "ROLLBACK"),
            Op::Reconnect => write!(f, "RECONNECT"),
            Op::Pass(time) => write!(f, "{time} MS PASS"),
            Op::Sweep => write!(f, "SWEEP"),
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Answer::Done => write!(f, "ok"),
            Answer::Value(value) => write!(f, "{:?}", Shown(value)),
            Answer::Typed(kind, value) => write!(f, "{:?} of type {kind}", Shown(value)),
            Answer::Absent => write!(f, "absent"),
            Answer::Left(time) => write!(f, "{time} ms left"),
            Answer::Keys(keys) => f
                .debug_list()
                .entries(keys.iter().map(|key| Shown(key)))
                .finish(),
        }
    }
}
