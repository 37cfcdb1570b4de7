//! Redis's limits for the encodings that it calls compact, at the defaults of Redis 7.0, and what a
//! run remembers of a collection that has gone beyond them.

use crate::integer;
use crate::run::History;

/// Fields of a hash in a listpack, at most.
pub const HASH_ENTRIES: usize = 512;
/// Members of a sorted set in a listpack, at most.
pub const SORTED_SET_ENTRIES: usize = 128;
/// Bytes of the longest field, value or member in a listpack.
pub const COMPACT_BYTES: usize = 64;
/// Elements of a set in an intset, at most.
pub const SET_INTEGERS: usize = 512;

/// The types of collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Hash,
    List,
    Set,
    SortedSet,
}

/// Is a collection of so many entries, of which the longest key or value has so many bytes, beyond the
/// limits? Never a list: Redis 7.0 has one encoding of them.
pub fn is_beyond(kind: Kind, entries: usize, longest: usize) -> bool {
    match kind {
        Kind::Hash => entries > HASH_ENTRIES || longest > COMPACT_BYTES,
        Kind::List => false,
        Kind::Set => entries > SET_INTEGERS,
        Kind::SortedSet => entries > SORTED_SET_ENTRIES || longest > COMPACT_BYTES,
    }
}

/// The history of a collection that never had others than these entries.
pub fn history<'a>(kind: Kind, entries: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> History {
    let (mut count, mut longest, mut not_integers) = (0, 0, false);
    for (key, value) in entries {
        count += 1;
        longest = longest.max(key.len()).max(value.len());
        not_integers |= kind == Kind::Set && integer::parse(key).is_none();
    }
    History {
        longest: u32::try_from(longest).unwrap_or(u32::MAX),
        not_integers,
        not_compact: is_beyond(kind, count, longest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: Kind, entries: &[(&[u8], &[u8])]) -> History {
        history(kind, entries.iter().copied())
    }

    #[test]
    fn a_set_remembers_what_is_no_integer() {
        assert!(!of(Kind::Set, &[(b"1", b""), (b"-5", b"")]).not_integers);
        assert!(of(Kind::Set, &[(b"1", b""), (b"05", b"")]).not_integers);
        assert!(!of(Kind::List, &[(b"a", b"")]).not_integers);
        assert!(!of(Kind::Hash, &[(b"a", b"b")]).not_integers);
    }

    #[test]
    fn the_limits_themselves_are_compact() {
        let keys: Vec<Vec<u8>> = (0..=HASH_ENTRIES).map(|n| n.to_string().into()).collect();
        for (kind, limit) in [
            (Kind::Hash, HASH_ENTRIES),
            (Kind::Set, SET_INTEGERS),
            (Kind::SortedSet, SORTED_SET_ENTRIES),
        ] {
            for (count, not_compact) in [(limit, false), (limit + 1, true)] {
                let entries = keys[..count].iter().map(|key| (&key[..], &b"12345678"[..]));
                assert_eq!(
                    history(kind, entries).not_compact,
                    not_compact,
                    "{kind:?}, {count}"
                );
            }
        }
        for kind in [Kind::Hash, Kind::SortedSet] {
            for (len, not_compact) in [(COMPACT_BYTES, false), (COMPACT_BYTES + 1, true)] {
                let key = vec![b'k'; len];
                let history = of(kind, &[(&key, b"12345678")]);
                assert_eq!(
                    (history.not_compact, history.longest),
                    (not_compact, len as u32)
                );
            }
        }
        assert!(!of(Kind::List, &[(&[b'x'; 100_000], b"")]).not_compact);
    }
}
