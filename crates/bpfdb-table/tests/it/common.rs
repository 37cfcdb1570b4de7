//! Tables of tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bpfdb_table::{Access, Aggregate, Bounds, Field, Options, Reader, Table, Writer};
use bpfdb_tests::random::Random;
use tempfile::TempDir;

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;
/// Key and value.
pub(crate) type Entry = (Vec<u8>, Vec<u8>);

pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("table")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Names of the files in it.
    pub(crate) fn files(&self) -> usize {
        std::fs::read_dir(self.0.path()).expect("listed").count()
    }
}

pub(crate) fn build(path: &Path, model: &Model, options: &Options) -> Table {
    let mut writer = Writer::create(path, options).expect("created");
    for (key, value) in model {
        writer.push(key, value).expect("pushed");
    }
    let about = writer.finish().expect("finished");
    let table = Table::open(path, Access::Cached).expect("opened");
    assert_eq!(*table.about(), about);
    assert_eq!(about.entries, model.len() as u64);
    table
}

pub(crate) fn options(block_size: u32, fanout: u32) -> Options {
    Options {
        block_size,
        fanout,
        timestamp: 7,
    }
}

/// Short keys that share beginnings, some long ones; values that are numbers, or bytes.
pub(crate) fn key(random: &mut Random) -> Vec<u8> {
    let len = if random.one_in(30) {
        random.below(200)
    } else {
        random.below(6)
    };
    (0..len).map(|_| b"\0ab\xff"[random.below(4)]).collect()
}

pub(crate) fn value(random: &mut Random) -> Vec<u8> {
    match random.below(3) {
        0 => (random.number() as i64 >> random.below(64))
            .to_string()
            .into_bytes(),
        1 => random.number().to_le_bytes()[..random.below(9)].to_vec(),
        _ => vec![random.number() as u8; random.below(200)],
    }
}

pub(crate) fn model(random: &mut Random, entries: usize) -> Model {
    (0..entries).map(|_| (key(random), value(random))).collect()
}

/// Random tables from empty to deep, one after the other: a model, bytes of a block, fan-out.
pub(crate) fn random_tables(seed: u64, mut each: impl FnMut(&mut Random, &Model, u32, u32)) {
    let mut random = Random::new(seed);
    for (entries, block_size, fanout) in [
        (0, 512, 0),
        (1, 512, 2),
        (30, 512, 2),
        (300, 512, 3),
        (3000, 512, 0),
        (3000, 1024, 5),
        (3000, 4096, 0),
        (3000, 65536, 0),
    ] {
        let model = model(&mut random, entries);
        each(&mut random, &model, block_size, fanout);
    }
}

/// Random ranges of keys, some without an end, and the entries that the model has there.
pub(crate) fn random_ranges(
    random: &mut Random,
    model: &Model,
    count: usize,
    mut each: impl FnMut(&mut Random, Bounds<'_>, Vec<Entry>),
) {
    for _ in 0..count {
        let (from, to) = (key(random), key(random));
        let bounds = Bounds {
            from: &from,
            to: (!random.one_in(4)).then_some(&to[..]),
        };
        let expected = within(model, bounds)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        each(random, bounds, expected);
    }
}

/// What the model has of a range.
fn within<'a>(
    model: &'a Model,
    bounds: Bounds<'a>,
) -> impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> {
    let to = bounds.to;
    let from = model.range::<[u8], _>((
        std::ops::Bound::Included(bounds.from),
        std::ops::Bound::Unbounded,
    ));
    from.take_while(move |(key, _)| to.is_none_or(|to| key.as_slice() < to))
}

pub(crate) fn aggregate(model: &Model, bounds: Bounds<'_>, field: Option<Field>) -> Aggregate {
    let mut all = Aggregate::default();
    let numbers: Vec<i128> = within(model, bounds)
        .inspect(|_| all.entries += 1)
        .filter_map(|(_, value)| field?.read(value))
        .collect();
    all.fields = numbers.len() as u64;
    all.sum = numbers.iter().sum();
    all.least = numbers.iter().min().copied();
    all.greatest = numbers.iter().max().copied();
    all
}

pub(crate) fn scanned(reader: &mut Reader<'_>, bounds: Bounds<'_>) -> Vec<Entry> {
    let mut scan = reader.scan(&bounds).expect("a scan");
    let mut all = Vec::new();
    while let Some((key, value)) = scan.next_entry().expect("read") {
        all.push((key.to_vec(), value.to_vec()));
    }
    all
}
