//! Random tables, compared with a map in memory.

use bpfdb_table::{Bounds, Error, Reader, Writer};
use bpfdb_tests::random::Random;

use crate::common::{
    Folder, Model, aggregate, build, options, random_ranges, random_tables, scanned,
};

const FIELDS: [&str; 6] = ["0:text", "0:u8", "1:u16", "0:i32", "0:u64", "0:i64"];

fn compare(random: &mut Random, model: &Model, block_size: u32, fanout: u32) -> u32 {
    let folder = Folder::new();
    let table = build(&folder.path(), model, &options(block_size, fanout));
    let mut reader = Reader::new(&table);
    let everything: Vec<_> = model.clone().into_iter().collect();
    assert_eq!(scanned(&mut reader, Bounds::default()), everything);
    for (key, value) in model {
        assert_eq!(reader.get(key).expect("read").as_ref(), Some(value));
    }
    random_ranges(random, model, 60, |random, bounds, expected| {
        let found = reader.get(bounds.from).expect("read");
        assert_eq!(found.as_ref(), model.get(bounds.from));
        assert_eq!(scanned(&mut reader, bounds), expected, "{bounds:?}");
        let field = FIELDS[random.below(FIELDS.len())].parse().expect("a field");
        for field in [None, Some(field)] {
            let found = reader.aggregate(&bounds, field).expect("read");
            assert_eq!(found, aggregate(model, bounds, field), "{bounds:?}");
        }
    });
    table.about().depth
}

#[test]
fn tables_have_what_a_map_has() {
    random_tables(1, |random, model, block_size, fanout| {
        compare(random, model, block_size, fanout);
    });
}

/// A fan-out of 2 doubles the leaves with each level.
#[test]
fn depths() {
    let mut random = Random::new(2);
    for depth in 1..=6 {
        let leaves = 1 << (depth - 1);
        // Two values have no room in one block.
        let model = (0..leaves)
            .map(|number: u32| (number.to_be_bytes().to_vec(), vec![7; 300]))
            .collect();
        assert_eq!(compare(&mut random, &model, 512, 2), depth);
    }
}

#[test]
fn the_longest_keys_have_room() {
    let mut random = Random::new(3);
    for (block_size, len) in [(512, 480), (1024, 512)] {
        let model = (0..40)
            .map(|number| {
                let mut key = vec![b'k'; len];
                key[len - 1] = number;
                (key, Vec::new())
            })
            .collect();
        compare(&mut random, &model, block_size, 0);
        let folder = Folder::new();
        let mut writer = Writer::create(&folder.path(), &options(block_size, 0)).expect("created");
        let error = writer.push(&vec![0; len + 1], b"").expect_err("too long");
        assert!(
            matches!(error, Error::KeyLength { most, .. } if most == len),
            "{error}"
        );
    }
}

#[test]
fn what_is_refused_names_the_key_and_leaves_the_table_as_it_is() {
    let folder = Folder::new();
    let mut writer = Writer::create(&folder.path(), &options(512, 0)).expect("created");
    writer.push(b"b", b"1").expect("pushed");
    let refused = |error: Error| error.to_string();
    let error = refused(writer.push(b"a", b"").expect_err("not in order"));
    assert_eq!(
        error,
        "the key \"a\" comes after \"b\": keys must ascend, and none may come twice"
    );
    let error = refused(writer.push(b"b", b"").expect_err("twice"));
    assert_eq!(error, "the key \"b\" comes twice");
    let error = refused(writer.push(b"c", &[0; 482]).expect_err("too long"));
    assert_eq!(
        error,
        "the value of \"c\" has 482 bytes; in blocks of 512 bytes there is room for 481 with this key"
    );
    writer.push(b"c", &[0; 481]).expect("pushed");
    assert_eq!(writer.finish().expect("finished").entries, 2);
    for (block_size, fanout) in [(0, 0), (256, 0), (4095, 0), (131_072, 0), (4096, 1)] {
        let outcome = Writer::create(&folder.path(), &options(block_size, fanout));
        assert!(
            matches!(outcome, Err(Error::Invalid(_))),
            "{block_size} {fanout}"
        );
    }
}

#[test]
fn a_table_has_its_name_when_it_is_complete() {
    let folder = Folder::new();
    let mut writer = Writer::create(&folder.path(), &options(512, 0)).expect("created");
    writer.push(b"a", b"1").expect("pushed");
    assert!(!folder.path().exists());
    drop(writer);
    assert_eq!(folder.files(), 0, "nothing is left");
    let table = build(&folder.path(), &Model::new(), &options(512, 0));
    let new = Model::from([(b"k".to_vec(), b"v".to_vec())]);
    build(&folder.path(), &new, &options(512, 0));
    let found = Reader::new(&table).get(b"k").expect("read");
    assert_eq!(found, None, "a table that is open stays what it is");
    assert_eq!(folder.files(), 1);
}
