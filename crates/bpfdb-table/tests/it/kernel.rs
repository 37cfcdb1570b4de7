//! Chains in the kernel: they answer what the process answers, and never from a block that is not as it was
//! written.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use bpfdb_table::{
    Access, Aggregate, Aggregation, Bounds, ChainFigures, ChainOptions, Chains, Error, Field,
    Reader, Table,
};
use bpfdb_tests::random::Random;

use crate::common::{
    Entry, Folder, Model, aggregate, build, key, options, random_ranges, random_tables, scanned,
};

const FIELDS: [&str; 9] = [
    "0:text", "0:u8", "0:i8", "1:u16", "0:i16", "0:i32", "1:u32", "0:u64", "0:i64",
];

fn start(table: &Table) -> Chains<'_> {
    Chains::start(table, &ChainOptions::default()).expect("chains run")
}

/// They read every block.
fn start_without_pool(table: &Table) -> Chains<'_> {
    let options = ChainOptions {
        pool: 0,
        ..ChainOptions::default()
    };
    Chains::start(table, &options).expect("chains run")
}

fn scanned_by(chains: &mut Chains<'_>, bounds: Bounds<'_>) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut each = |key: &[u8], value: &[u8]| {
        all.push((key.to_vec(), value.to_vec()));
        true
    };
    chains.scan(&bounds, &mut each).expect("read");
    all
}

/// As small ones as there are.
fn in_slices(
    bounds: Bounds<'_>,
    field: Option<Field>,
    mut advance: impl FnMut(&mut Aggregation) -> bpfdb_table::Result<Option<Aggregate>>,
) -> Aggregate {
    let mut aggregation = Aggregation::new(&bounds, field);
    loop {
        if let Some(aggregate) = advance(&mut aggregation).expect("read") {
            return aggregate;
        }
    }
}

/// Who goes on looks at some leaves at a time, and may ask for something else in between.
#[test]
fn an_aggregate_has_as_many_slices_as_the_leaves_need() {
    let folder = Folder::new();
    let model = (0..3000_u32)
        .map(|number| (number.to_be_bytes().to_vec(), vec![7; 300]))
        .collect();
    let table = build(&folder.path(), &model, &options(512, 0));
    let (mut chains, mut reader) = (start(&table), Reader::new(&table));
    // 64 KiB are read at once.
    let expected = table.about().leaves.div_ceil(128);
    assert!(expected > 10);
    let mut by_reader = Aggregation::new(&Bounds::default(), None);
    let mut by_chains = by_reader.clone();
    for slice in 1..=expected {
        let found = chains.advance(&mut by_chains, 0).expect("read");
        assert_eq!(found.is_some(), slice == expected);
        assert_eq!(reader.advance(&mut by_reader, 0).expect("read"), found);
        assert_eq!(
            chains.get(&7_u32.to_be_bytes()).expect("read"),
            Some(vec![7; 300])
        );
    }
    // One begins where the other is: both know the leaf.
    let mut both = Aggregation::new(&Bounds::default(), Some("0:u8".parse().expect("a field")));
    let mut found = None;
    for slice in 1..=expected {
        found = match slice % 2 {
            0 => chains.advance(&mut both, 0).expect("read"),
            _ => reader.advance(&mut both, 0).expect("read"),
        };
    }
    assert_eq!(found.expect("the whole").sum, 7 * 3000);
    assert_eq!(chains.figures().by_process, 0);
}

fn compare(random: &mut Random, model: &Model, block_size: u32, fanout: u32) -> u32 {
    let folder = Folder::new();
    let table = build(&folder.path(), model, &options(block_size, fanout));
    let mut reader = Reader::new(&table);
    let mut chains = match random.one_in(2) {
        true => start(&table),
        false => start_without_pool(&table),
    };
    let drawn: Vec<Vec<u8>> = (0..200).map(|_| key(random)).collect();
    let keys: Vec<&[u8]> = model.keys().chain(&drawn).map(Vec::as_slice).collect();
    let values = chains.get_many(&keys).expect("read");
    for (key, value) in keys.iter().zip(values) {
        assert_eq!(value.as_ref(), model.get(*key), "{}", key.escape_ascii());
    }
    random_ranges(random, model, 40, |random, bounds, expected| {
        let found = chains.get(bounds.from).expect("read");
        assert_eq!(found.as_ref(), model.get(bounds.from));
        assert_eq!(scanned_by(&mut chains, bounds), expected, "{bounds:?}");
        assert_eq!(scanned(&mut reader, bounds), expected, "{bounds:?}");
        let field = FIELDS[random.below(FIELDS.len())].parse().expect("a field");
        for field in [None, Some(field)] {
            let expected = aggregate(model, bounds, field);
            let found = chains.aggregate(&bounds, field).expect("read");
            assert_eq!(found, expected, "{bounds:?} {field:?}");
            assert_eq!(reader.aggregate(&bounds, field).expect("read"), expected);
            let by_chains = in_slices(bounds, field, |slices| chains.advance(slices, 0));
            assert_eq!(by_chains, expected, "{bounds:?} {field:?}");
            let by_reader = in_slices(bounds, field, |slices| reader.advance(slices, 0));
            assert_eq!(by_reader, expected, "{bounds:?} {field:?}");
        }
    });
    let ChainFigures {
        chains,
        from_pool,
        by_process,
        ..
    } = chains.figures();
    assert!(chains + from_pool > keys.len() as u64);
    assert_eq!(by_process, 0, "the kernel has answered everything");
    table.about().depth
}

#[test]
fn chains_answer_as_the_process_and_a_map_do() {
    random_tables(11, |random, model, block_size, fanout| {
        compare(random, model, block_size, fanout);
    });
}

#[test]
fn depths() {
    let mut random = Random::new(12);
    for depth in 1..=6 {
        let leaves = 1 << (depth - 1);
        let model = (0..leaves)
            .map(|number: u32| (number.to_be_bytes().to_vec(), vec![7; 300]))
            .collect();
        assert_eq!(compare(&mut random, &model, 512, 2), depth);
    }
}

/// A read for each level.
#[test]
fn a_question_is_one_chain() {
    let folder = Folder::new();
    let model = (0..64_u32)
        .map(|number| (number.to_be_bytes().to_vec(), vec![7; 300]))
        .collect();
    let table = build(&folder.path(), &model, &options(512, 4));
    let mut chains = start_without_pool(&table);
    assert_eq!(chains.figures(), ChainFigures::default());
    for number in 0..10_u32 {
        let value = chains.get(&number.to_be_bytes()).expect("read");
        assert_eq!(value, Some(vec![7; 300]));
    }
    assert_eq!(table.about().depth, 4);
    let expected = ChainFigures {
        chains: 10,
        reads: 40,
        ..ChainFigures::default()
    };
    assert_eq!(chains.figures(), expected);
}

#[test]
fn numbers_at_their_limits() {
    let folder = Folder::new();
    let texts = [
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "-9223372036854775809",
        "0",
        "-0",
        "00",
        "1",
        "-1",
        "",
        "-",
        "+1",
        "1 ",
        "123456789012345678901",
        "99999999999999999999",
    ];
    let numbers = [0, 1, u64::MAX, i64::MAX as u64, i64::MIN as u64];
    let model: Model = texts
        .iter()
        .map(|text| text.as_bytes().to_vec())
        .chain(numbers.map(|number| number.to_le_bytes().to_vec()))
        .enumerate()
        .map(|(index, value)| (vec![index as u8], value))
        .collect();
    let table = build(&folder.path(), &model, &options(512, 0));
    let mut chains = start(&table);
    for number in 0..model.len() as u8 {
        for end in number..=model.len() as u8 {
            let bounds = Bounds {
                from: &[number],
                to: Some(&[end]),
            };
            for field in FIELDS {
                let field = Some(field.parse().expect("a field"));
                let found = chains.aggregate(&bounds, field).expect("read");
                assert_eq!(
                    found,
                    aggregate(&model, bounds, field),
                    "{bounds:?} {field:?}"
                );
            }
        }
    }
    assert_eq!(chains.figures().by_process, 0);
}

/// The table is changed under a chain that runs on it: no answer comes from such a block.
#[test]
fn a_block_that_was_changed_is_found_and_named() {
    let mut random = Random::new(13);
    let folder = Folder::new();
    let model: Model = (0..200_u32)
        .map(|number| (number.to_be_bytes().to_vec(), vec![number as u8; 100]))
        .collect();
    let table = build(&folder.path(), &model, &options(512, 5));
    let mut chains = start_without_pool(&table);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(folder.path())
        .expect("opened");
    for _ in 0..60 {
        let block = 1 + random.below(table.about().blocks as usize - 2) as u64;
        let at = block * 512 + random.below(512) as u64;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("read");
        let changed = [byte[0] ^ 1 << random.below(8)];
        file.write_all_at(&changed, at).expect("written");
        let mut errors = 0;
        for (key, value) in &model {
            match chains.get(key) {
                Ok(found) => assert_eq!(found.as_ref(), Some(value)),
                Err(Error::Damaged { offset, .. }) => {
                    assert_eq!(offset, block * 512);
                    errors += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(errors > 0, "block {block}");
        let keys: Vec<&[u8]> = model.keys().map(Vec::as_slice).collect();
        let all = chains.get_many(&keys);
        assert!(matches!(all, Err(Error::Damaged { .. })), "{all:?}");
        let counted = chains.aggregate(&Bounds::default(), None);
        if block <= table.about().leaves {
            assert!(matches!(counted, Err(Error::Damaged { .. })), "{counted:?}");
        }
        file.write_all_at(&byte, at).expect("written");
    }
    let before = chains.figures();
    assert!(before.by_process > 0);
    for (key, value) in &model {
        assert_eq!(chains.get(key).expect("read").as_ref(), Some(value));
    }
    assert_eq!(
        chains.figures().by_process,
        before.by_process,
        "chains go on"
    );
}

/// Each has a ring, and a program, of its own.
#[test]
fn many_at_the_same_time() {
    let folder = Folder::new();
    let model = (0..1000_u32)
        .map(|number| (number.to_be_bytes().to_vec(), number.to_le_bytes().to_vec()))
        .collect();
    let table = build(&folder.path(), &model, &options(512, 0));
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (table, model) = (&table, &model);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                let mut chains = start(table);
                for _ in 0..100 {
                    let number = random.below(1100) as u32;
                    let key = number.to_be_bytes();
                    let found = chains.get(&key).expect("read");
                    assert_eq!(found.as_ref(), model.get(&key[..]));
                }
                assert_eq!(chains.figures().by_process, 0);
            });
        }
    });
}

/// A file system in memory has O_DIRECT or not, by the kernel's version; either way the reason is named, or
/// chains answer.
#[test]
fn what_is_not_available_is_said() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let path = folder.path().join("table");
    let model = Model::from([(b"k".to_vec(), b"v".to_vec())]);
    build(&path, &model, &options(512, 0));
    let table = Table::open(&path, Access::Cached).expect("opened");
    match Chains::start(&table, &ChainOptions::default()) {
        Ok(mut chains) => assert_eq!(chains.get(b"k").expect("read"), Some(b"v".to_vec())),
        Err(error) => assert!(matches!(error, Error::Unavailable(_)), "{error}"),
    }
}
