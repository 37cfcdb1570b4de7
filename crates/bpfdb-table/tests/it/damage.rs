//! Files that are no tables, or not as they were written: refused, and never answered from.

use std::fs;

use bpfdb_table::{Access, Bounds, Error, Reader, Table, Writer};
use bpfdb_tests::random::Random;

use crate::common::{Entry, Folder, build, model, options};

/// All that is read of a table; the error says where it is wrong.
fn read_all(folder: &Folder) -> Result<Vec<Entry>, Error> {
    let table = Table::open(&folder.path(), Access::Cached)?;
    let mut reader = Reader::new(&table);
    let bounds = Bounds::default();
    let mut scan = reader.scan(&bounds)?;
    let mut all = Vec::new();
    while let Some((key, value)) = scan.next_entry()? {
        all.push((key.to_vec(), value.to_vec()));
    }
    for (key, value) in &all {
        assert_eq!(reader.get(key)?.as_ref(), Some(value));
    }
    Ok(all)
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let mut random = Random::new(4);
    let folder = Folder::new();
    let model = model(&mut random, 200);
    let table = build(&folder.path(), &model, &options(512, 3));
    let bytes = fs::read(folder.path()).expect("read");
    assert_eq!(bytes.len() as u64, table.about().blocks * 512);
    for block in 0..bytes.len() / 512 {
        for _ in 0..8 {
            let at = block * 512 + random.below(512);
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << random.below(8);
            fs::write(folder.path(), &damaged).expect("written");
            let error = read_all(&folder).expect_err("it was found");
            let path = folder.path();
            match error {
                Error::Foreign { path: named } => assert!(named == path && (8..16).contains(&at)),
                Error::Version { path: named, .. } => {
                    assert!(named == path && (16..20).contains(&at));
                }
                Error::Damaged {
                    path: named,
                    offset,
                    ..
                } => {
                    assert_eq!(named, path);
                    let is_size = (20..24).contains(&at);
                    assert!(
                        is_size || offset / 512 == block as u64,
                        "{at}, found at {offset}"
                    );
                }
                error => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_or_goes_on_is_refused() {
    let mut random = Random::new(5);
    let folder = Folder::new();
    build(&folder.path(), &model(&mut random, 100), &options(512, 0));
    let bytes = fs::read(folder.path()).expect("read");
    let lengths = (0..bytes.len())
        .step_by(100)
        .chain((0..bytes.len()).step_by(512));
    for length in lengths {
        fs::write(folder.path(), &bytes[..length]).expect("written");
        let error = Table::open(&folder.path(), Access::Cached).expect_err("cut");
        let is_short =
            length < 24 && matches!(error, Error::Foreign { .. } | Error::Version { .. });
        assert!(
            is_short || matches!(error, Error::Damaged { .. }),
            "{length}: {error}"
        );
    }
    for more in [1, 511, 512] {
        let longer = [&bytes[..], &vec![0; more]].concat();
        fs::write(folder.path(), longer).expect("written");
        let error = Table::open(&folder.path(), Access::Cached).expect_err("too long");
        assert!(matches!(error, Error::Damaged { .. }), "{more}: {error}");
    }
}

/// A block of another table, and one in the place of another, have right checksums of their own.
#[test]
fn blocks_in_wrong_places_are_found() {
    let mut random = Random::new(6);
    let (folder, other) = (Folder::new(), Folder::new());
    let model = model(&mut random, 100);
    build(&folder.path(), &model, &options(512, 0));
    build(&other.path(), &model, &options(512, 0));
    let bytes = fs::read(folder.path()).expect("read");
    let strange = fs::read(other.path()).expect("read");
    let mut exchanged = bytes.clone();
    exchanged[512..1024].copy_from_slice(&bytes[1024..1536]);
    let mut mixed = bytes.clone();
    mixed[512..1024].copy_from_slice(&strange[512..1024]);
    for damaged in [exchanged, mixed] {
        fs::write(folder.path(), damaged).expect("written");
        let error = read_all(&folder).expect_err("it was found");
        assert!(
            matches!(error, Error::Damaged { offset: 512, .. }),
            "{error}"
        );
    }
}

#[test]
fn strangers_are_refused_by_name() {
    let folder = Folder::new();
    for bytes in [&b""[..], b"REDIS0011", &[0; 5000], b"BPFDBTAB"] {
        fs::write(folder.path(), bytes).expect("written");
        let error = Table::open(&folder.path(), Access::Cached).expect_err("no table");
        let name = folder.path().display().to_string();
        assert_eq!(error.to_string(), format!("{name}: not a table"));
    }
    let writer = Writer::create(&folder.path(), &options(512, 0)).expect("created");
    writer.finish().expect("finished");
    let mut bytes = fs::read(folder.path()).expect("read");
    bytes[16] = 9;
    fs::write(folder.path(), bytes).expect("written");
    let error = Table::open(&folder.path(), Access::Cached).expect_err("another version");
    assert!(
        matches!(
            error,
            Error::Version {
                version: 9,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
    assert!(Table::open(&folder.folder().join("none"), Access::Cached).is_err());
}
