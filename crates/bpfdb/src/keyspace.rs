//! Keyspaces: which records of the engine are keys of whom.
//!
//! The key of a record is its *stored key*. That of a key in Redis database 0, or of an embedded
//! program, is the key itself. Any other begins with a prefix of eight bytes: seven that are
//! reserved, and the number of the keyspace. The engine counts the records of each.
//!
//! Clients of the server cannot name a key that begins with the reserved bytes. For programs that
//! embed the engine they are keys as any other.

use std::borrow::Cow;

use crate::abi;

/// What reserved keys begin with.
const RESERVED: [u8; abi::BPFDB_RESERVED_LEN as usize] = *b"\0bpfdb\0";
const PREFIX: usize = abi::BPFDB_KEYSPACE_PREFIX as usize;

/// Its value has the server's libraries of functions, in the form of FUNCTION DUMP.
pub const FUNCTIONS_KEY: &[u8] = b"\0bpfdb\0\0functions";

/// Number of a reserved keyspace: 0 to [`Keyspace::COUNT`] - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keyspace(u8);

impl Keyspace {
    /// How many there can be.
    pub const COUNT: usize = abi::BPFDB_KEYSPACES as usize;
    /// Records of the server itself.
    pub const OWN: Self = Self(0);
    /// Pages of large collections.
    pub const PAGES: Self = Self(abi::BPFDB_KEYSPACE_PAGES as u8);
    /// Nodes of the indexes of ordered tables.
    pub(crate) const NODES: Self = Self(abi::BPFDB_KEYSPACE_NODES as u8);
    /// The empty key of Redis database 0, whose stored key is the prefix alone: the engine knows no
    /// empty keys.
    pub const EMPTY_KEY: Self = Self(17);

    /// Rows of an ordered table.
    pub(crate) const fn of_ordered_table(table: u8) -> Self {
        assert!((table as u32) < abi::BPFDB_ORDERED_TABLES_MAX);
        Self(abi::BPFDB_KEYSPACE_ORDERED as u8 + table)
    }

    /// Number in the arrays of the engine.
    pub fn number(self) -> usize {
        self.0.into()
    }

    /// What stored keys of this keyspace begin with.
    pub const fn prefix(self) -> [u8; PREFIX] {
        let mut prefix = [0; PREFIX];
        let mut at = 0;
        while at < RESERVED.len() {
            prefix[at] = RESERVED[at];
            at += 1;
        }
        prefix[RESERVED.len()] = self.0;
        prefix
    }

    /// The stored key of a key.
    pub fn key(self, key: &[u8]) -> Vec<u8> {
        [&self.prefix(), key].concat()
    }
}

/// A Redis database: 0 to [`Database::COUNT`] - 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Database(u8);

impl Database {
    /// How many there can be.
    pub const COUNT: usize = abi::BPFDB_DATABASES as usize;

    /// `None` if there cannot be so many.
    pub fn new(number: usize) -> Option<Self> {
        (number < Self::COUNT).then_some(Self(number as u8))
    }

    /// All that there can be.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }

    pub fn number(self) -> usize {
        self.0.into()
    }

    /// The keyspace of its keys; `None`: they have no prefix.
    pub fn keyspace(self) -> Option<Keyspace> {
        (self.0 != 0).then_some(Keyspace(self.0))
    }

    /// Longest key of the database, bytes.
    pub fn key_max(self) -> usize {
        abi::BPFDB_KEY_MAX as usize - self.keyspace().map_or(0, |_| PREFIX)
    }

    /// The stored key of a key of this database; a reserved key is one already.
    pub fn stored(self, key: &[u8]) -> Cow<'_, [u8]> {
        match self.keyspace_of(key) {
            Some(keyspace) => keyspace.key(key).into(),
            None => key.into(),
        }
    }

    /// The keyspace whose prefix stands before this key; `None`: the key is a stored key.
    pub(crate) fn keyspace_of(self, key: &[u8]) -> Option<Keyspace> {
        match self.keyspace() {
            None => key.is_empty().then_some(Keyspace::EMPTY_KEY),
            some => some.filter(|_| !is_reserved(key)),
        }
    }

    /// The key whose stored key this is, if it is of this database.
    pub fn key_of(self, stored: &[u8]) -> Option<&[u8]> {
        match Self::split(stored) {
            Some((database, key)) if database == self => Some(key),
            _ => None,
        }
    }

    /// Database and key of a stored key; `None`: it is in no database.
    pub fn split(stored: &[u8]) -> Option<(Self, &[u8])> {
        if !is_reserved(stored) {
            return Some((Self(0), stored));
        }
        let (prefix, key) = stored.split_at_checked(PREFIX)?;
        let number = prefix[RESERVED.len()];
        if number == Keyspace::EMPTY_KEY.0 && key.is_empty() {
            return Some((Self(0), key));
        }
        (number != 0 && usize::from(number) < Self::COUNT).then_some((Self(number), key))
    }
}

/// A set of keyspaces, as a scan is of: in its transaction no other one makes a key of these come or go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyspaces(u32);

impl Keyspaces {
    /// All records, those of the server itself and pages of large collections included.
    pub const ALL: Self = Self(u32::MAX);

    /// Those of all Redis databases.
    pub fn of_databases() -> Self {
        Database::all().fold(Self(0), |all, database| {
            Self(all.0 | Self::from(database).0)
        })
    }

    /// As the engine has it.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }
}

impl From<Keyspace> for Keyspaces {
    fn from(keyspace: Keyspace) -> Self {
        Self(1 << keyspace.0)
    }
}

impl From<Database> for Keyspaces {
    fn from(database: Database) -> Self {
        match database.keyspace() {
            Some(keyspace) => keyspace.into(),
            // The empty key stands apart from the others.
            None => Self(1 << abi::BPFDB_KEYSPACE_NONE | 1 << Keyspace::EMPTY_KEY.0),
        }
    }
}

/// Is it the stored key of a row of an ordered table, or of a node of an index? These belong together:
/// what copies or moves records one by one leaves them out.
pub fn is_of_ordered_table(stored: &[u8]) -> bool {
    let number = stored.strip_prefix(&RESERVED).and_then(<[u8]>::first);
    number.is_some_and(|&number| {
        (abi::BPFDB_KEYSPACE_ORDERED..=abi::BPFDB_KEYSPACE_NODES).contains(&number.into())
    })
}

/// Is it a key that clients of the server cannot name?
pub fn is_reserved(key: &[u8]) -> bool {
    key.starts_with(&RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved() {
        let word = abi::BPFDB_RESERVED_KEYS.to_le_bytes();
        assert_eq!(&word[..RESERVED.len()], RESERVED);
        assert_eq!(word, Keyspace::OWN.prefix());
        assert!(is_reserved(FUNCTIONS_KEY));
        assert!(is_reserved(b"\0bpfdb\0\x01key"));
        assert!(is_reserved(b"\0bpfdb\0"));
        assert!(!is_reserved(b"\0bpfdb"));
        assert!(!is_reserved(b"bpfdb"));
    }

    #[test]
    fn a_stored_key_says_its_database() {
        for database in Database::all() {
            let stored = database.stored(b"key");
            let of = |other: Database| other.key_of(&stored);
            assert_eq!(Database::split(&stored), Some((database, &b"key"[..])));
            assert!(Database::all().all(|other| of(other).is_some() == (other == database)));
        }
        for database in Database::all() {
            let stored = database.stored(b"");
            assert_eq!(Database::split(&stored), Some((database, &b""[..])));
        }
        assert_eq!(Database::split(FUNCTIONS_KEY), None);
        assert_eq!(Database::split(&Keyspace::EMPTY_KEY.key(b"k")), None);
        assert_eq!(Database::split(&Keyspace::PAGES.key(b"1")), None);
        assert_eq!(Database::split(b"\0bpfdb\0"), None);
        assert_eq!(Database::new(Database::COUNT), None);
    }

    #[test]
    fn what_is_of_an_ordered_table() {
        let tables = 0..abi::BPFDB_ORDERED_TABLES_MAX as u8;
        for keyspace in tables.map(Keyspace::of_ordered_table) {
            assert!(is_of_ordered_table(&keyspace.key(b"row")));
            assert!(is_of_ordered_table(&keyspace.prefix()));
        }
        assert!(is_of_ordered_table(&Keyspace::NODES.key(b"node")));
        let mut others: Vec<Vec<u8>> = Database::all()
            .map(|database| database.stored(b"key").into_owned())
            .collect();
        others.extend([Keyspace::PAGES, Keyspace::OWN, Keyspace::EMPTY_KEY].map(|of| of.key(b"1")));
        others.extend([
            RESERVED.to_vec(),
            Keyspace(27).key(b""),
            Keyspace(50).key(b""),
        ]);
        for other in others {
            assert!(!is_of_ordered_table(&other), "{}", other.escape_ascii());
        }
    }

    #[test]
    fn a_reserved_key_is_a_stored_key() {
        let database = Database::new(3).expect("there is one");
        assert_eq!(*database.stored(FUNCTIONS_KEY), *FUNCTIONS_KEY);
        assert_eq!(database.stored(b"a").len(), PREFIX + 1);
    }
}
