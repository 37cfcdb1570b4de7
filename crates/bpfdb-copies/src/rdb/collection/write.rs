//! Writes a collection as Redis 7.0 does.

use bpfdb_values::double;
use bpfdb_values::limits::Kind;
use bpfdb_values::listpack::Listpack;
use bpfdb_values::run::{Malformed, Run};

use super::super::packed::intset;
use super::super::string;
use crate::collection::score_of;
use crate::integer;

const SET: u8 = 2;
const HASH: u8 = 4;
const SORTED_SET: u8 = 5;
const INTSET: u8 = 11;
const HASH_LISTPACK: u8 = 16;
const SORTED_SET_LISTPACK: u8 = 17;
const LIST: u8 = 18;

/// In a list: a listpack follows.
const PACKED: u64 = 2;
/// Bytes of a list's node, at most, if it has more than one element.
const NODE: usize = 8192;
/// What Redis counts for an element beside its bytes, however it is stored.
const NODE_ENTRY: usize = 8;

/// The number of a type, and the bytes behind the key.
pub(in crate::rdb) struct Written {
    pub(in crate::rdb) number: u8,
    pub(in crate::rdb) bytes: Vec<u8>,
}

/// What stands for the collection in a file.
///
/// # Errors
/// Bytes that are no run of this kind.
pub(in crate::rdb) fn write(kind: Kind, run: &[u8]) -> Result<Written, Malformed> {
    let run = Run::parse(run)?;
    let entries = run.iter().collect::<Result<Vec<_>, _>>()?;
    let history = run.history();
    let (number, bytes) = match kind {
        Kind::List => (LIST, list(&entries)),
        Kind::Set if history.not_integers || history.not_compact => (SET, keys(&entries)),
        Kind::Set => match integers(&entries) {
            Some(integers) => (INTSET, one_string(&intset::write(integers))),
            None => (SET, keys(&entries)),
        },
        Kind::Hash if history.not_compact => (HASH, pairs(&entries)),
        Kind::Hash => (HASH_LISTPACK, packed_pairs(&entries)),
        Kind::SortedSet if history.not_compact => (SORTED_SET, members(&entries)?),
        Kind::SortedSet => (SORTED_SET_LISTPACK, packed_members(&entries)?),
    };
    Ok(Written { number, bytes })
}

type Entry<'a> = (&'a [u8], &'a [u8]);

fn one_string(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 9);
    string::put(&mut out, bytes);
    out
}

fn keys(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    string::put_len(&mut out, entries.len() as u64);
    for (key, _) in entries {
        string::put(&mut out, key);
    }
    out
}

fn pairs(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    string::put_len(&mut out, entries.len() as u64);
    for (key, value) in entries {
        string::put(&mut out, key);
        string::put(&mut out, value);
    }
    out
}

fn packed_pairs(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut listpack = Listpack::new();
    for (key, value) in entries {
        listpack.push(key);
        listpack.push(value);
    }
    one_string(&listpack.finish())
}

fn integers(entries: &[Entry<'_>]) -> Option<Vec<i64>> {
    entries.iter().map(|(key, _)| integer::parse(key)).collect()
}

/// From the highest score down: so Redis inserts each in front of the others, without a search.
fn members(entries: &[Entry<'_>]) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::new();
    string::put_len(&mut out, entries.len() as u64);
    for (member, value) in entries.iter().rev() {
        string::put(&mut out, member);
        out.extend_from_slice(&score(value)?.to_le_bytes());
    }
    Ok(out)
}

fn packed_members(entries: &[Entry<'_>]) -> Result<Vec<u8>, Malformed> {
    let mut listpack = Listpack::new();
    for (member, value) in entries {
        listpack.push(member);
        listpack.push(double::compact_text(score(value)?).as_bytes());
    }
    Ok(one_string(&listpack.finish()))
}

fn score(value: &[u8]) -> Result<f64, Malformed> {
    score_of(value).ok_or(Malformed::SCORE)
}

/// Nodes that are as full as those of a list that RPUSH has filled.
fn list(entries: &[Entry<'_>]) -> Vec<u8> {
    let (mut nodes, mut bytes) = (0, Vec::new());
    let mut node = Listpack::new();
    for (element, _) in entries {
        if !node.is_empty() && node.size() + element.len() + NODE_ENTRY > NODE {
            nodes += 1;
            put_node(&mut bytes, std::mem::replace(&mut node, Listpack::new()));
        }
        node.push(element);
    }
    put_node(&mut bytes, node);
    let mut out = Vec::with_capacity(bytes.len() + 9);
    string::put_len(&mut out, nodes + 1);
    out.append(&mut bytes);
    out
}

fn put_node(out: &mut Vec<u8>, node: Listpack) {
    string::put_len(out, PACKED);
    string::put(out, &node.finish());
}

#[cfg(test)]
mod tests {
    use bpfdb_values::limits::{self, HASH_ENTRIES, SET_INTEGERS, SORTED_SET_ENTRIES};
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::super::super::Dialect;
    use super::super::read::{Collection, read};
    use super::*;
    use crate::collection::Builder;
    use crate::source::Source;

    fn run(kind: Kind, strings: &[Vec<u8>]) -> Vec<u8> {
        let mut builder = Builder::new(kind);
        for string in strings {
            builder.string(string).expect("room");
        }
        builder.finish().expect("a run")
    }

    /// The number of the type that was written, which must be read as the same run.
    fn number(kind: Kind, bytes: &[u8]) -> u8 {
        let written = write(kind, bytes).expect("a run");
        let mut source = Source::plain(&written.bytes[..]);
        let read = read(&mut source, Dialect::Redis, written.number).expect("right");
        let Collection::Run(read) = read else {
            panic!("{read:?}");
        };
        assert!(source.is_at_end().expect("no error"));
        let entries = |run: &[u8]| {
            let run = Run::parse(run).expect("a run");
            let entries = run.iter().map(|entry| entry.expect("sound"));
            let entries = entries.map(|(key, value)| (key.to_vec(), value.to_vec()));
            entries.collect::<Vec<_>>()
        };
        let (mut wanted, mut found) = (entries(bytes), entries(&read));
        if kind == Kind::Set {
            wanted.sort();
            found.sort();
        }
        assert!(wanted == found);
        written.number
    }

    fn numbers(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|n| n.to_string().into_bytes()).collect()
    }

    #[test]
    fn small_ones_are_compact() {
        let text = |words: &[&str]| {
            words
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .collect::<Vec<_>>()
        };
        let pairs = |count: usize| {
            numbers(count)
                .into_iter()
                .flat_map(|n| [n.clone(), n])
                .collect::<Vec<_>>()
        };
        for (kind, strings, wanted) in [
            (Kind::Set, text(&["1", "-70000"]), INTSET),
            (Kind::Set, text(&["1", "a"]), SET),
            (Kind::Set, numbers(SET_INTEGERS), INTSET),
            (Kind::Set, numbers(SET_INTEGERS + 1), SET),
            (Kind::Hash, pairs(HASH_ENTRIES), HASH_LISTPACK),
            (Kind::Hash, pairs(HASH_ENTRIES + 1), HASH),
            (
                Kind::Hash,
                vec![b"f".to_vec(), vec![b'v'; limits::COMPACT_BYTES]],
                HASH_LISTPACK,
            ),
            (
                Kind::Hash,
                vec![b"f".to_vec(), vec![b'v'; limits::COMPACT_BYTES + 1]],
                HASH,
            ),
            (
                Kind::SortedSet,
                pairs(SORTED_SET_ENTRIES),
                SORTED_SET_LISTPACK,
            ),
            (Kind::SortedSet, pairs(SORTED_SET_ENTRIES + 1), SORTED_SET),
            (
                Kind::SortedSet,
                text(&["a", "inf", "b", "-0.1"]),
                SORTED_SET_LISTPACK,
            ),
            (Kind::List, numbers(10_000), LIST),
            (Kind::List, vec![vec![b'x'; 100_000], b"1".to_vec()], LIST),
        ] {
            assert_eq!(number(kind, &run(kind, &strings)), wanted, "{kind:?}");
        }
    }

    #[test]
    fn damaged_runs_are_refused() {
        for kind in [Kind::Hash, Kind::List, Kind::Set, Kind::SortedSet] {
            assert!(write(kind, b"").is_err());
        }
        assert!(write(Kind::SortedSet, &run(Kind::Set, &numbers(3))).is_err());
    }

    proptest! {
        #[test]
        fn collections_come_back(
            entries in btree_map(vec(any::<u8>(), 0..300), any::<i32>(), 1..30),
            long in proptest::option::of(0..20_000_usize),
        ) {
            let mut strings: Vec<Vec<u8>> = entries.keys().cloned().collect();
            strings.extend(long.map(|len| vec![b'l'; len + 300]));
            number(Kind::List, &run(Kind::List, &strings));
            number(Kind::Set, &run(Kind::Set, &strings));
            let pairs: Vec<_> = entries.into_iter().flat_map(|(key, n)| [key, n.to_string().into_bytes()]).collect();
            number(Kind::Hash, &run(Kind::Hash, &pairs));
            number(Kind::SortedSet, &run(Kind::SortedSet, &pairs));
        }
    }
}
