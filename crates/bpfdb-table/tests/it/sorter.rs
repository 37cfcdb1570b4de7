//! Entries that do not come in order.

use std::collections::btree_map::Entry::Vacant;

use bpfdb_table::{Error, Sorter};
use bpfdb_tests::random::Random;

use crate::common::{Entry, Folder, Model, key, value};

fn sorted(sorter: Sorter) -> Result<Vec<Entry>, Error> {
    let mut sorted = sorter.finish()?;
    let mut all = Vec::new();
    while let Some((key, value)) = sorted.next_entry()? {
        all.push((key.into_vec(), value.into_vec()));
    }
    Ok(all)
}

/// In memory; in a few runs; in so many runs that they are merged before the end.
#[test]
fn entries_are_sorted_with_little_memory() {
    let mut random = Random::new(7);
    for memory in [1 << 30, 10_000, 1000, 1] {
        let folder = Folder::new();
        let mut sorter = Sorter::new(folder.folder(), memory);
        let mut model = Model::new();
        while model.len() < 2000 {
            let key = [&key(&mut random)[..], &[random.number() as u8]].concat();
            let value = value(&mut random);
            if let Vacant(place) = model.entry(key) {
                sorter.push(place.key(), &value).expect("pushed");
                place.insert(value);
            }
        }
        let expected: Vec<_> = model.into_iter().collect();
        assert_eq!(sorted(sorter).expect("sorted"), expected);
        assert_eq!(folder.files(), 0, "files have no names");
    }
}

#[test]
fn a_key_that_comes_twice_is_named() {
    for memory in [1 << 30, 1] {
        let folder = Folder::new();
        let mut sorter = Sorter::new(folder.folder(), memory);
        for key in [&b"b"[..], b"a", b"b"] {
            sorter.push(key, b"").expect("pushed");
        }
        let error = sorted(sorter).expect_err("twice");
        assert_eq!(error.to_string(), "the key \"b\" comes twice");
    }
}
