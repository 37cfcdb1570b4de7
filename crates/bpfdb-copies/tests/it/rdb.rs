//! Files of Redis that are written by hand: what older versions wrote, and what is refused.

use crate::common;

use std::collections::BTreeMap;

use bpfdb_copies::{Choice, Contents, Error, Nowhere, read};
use common::collect;

fn outcome(bytes: &[u8]) -> Result<Contents, Error> {
    read(bytes, Choice::default(), &mut Nowhere).map(|(_, contents)| contents)
}

/// A file by hand: without a checksum.
fn by_hand(version: &str, content: &[u8]) -> Vec<u8> {
    [b"REDIS", version.as_bytes(), content, b"\xff", &[0; 8]].concat()
}

#[test]
fn what_older_versions_write() {
    // Seconds, and a version without any checksum.
    let old = b"REDIS0003\xfe\0\xfd\xff\xff\xff\x7f\0\x01a\x01b\xff";
    let (read, contents) = collect(old).expect("right");
    let time = u64::from(i32::MAX.unsigned_abs()) * 1000;
    assert_eq!(
        read,
        BTreeMap::from([(b"a".to_vec(), (b"b".to_vec(), Some(time)))])
    );
    assert!(contents.is_unchecked);
    // A zipmap, numbers as text, a list and a set as they were; a module of later times.
    let values = [
        &b"\x09\x01a\x03\x01\x01\xff"[..],
        b"\x03\x01a\x02\x01x\x031.5\x01y\xfe",
        b"\x01\x01a\x02\x01x\xc0\x07",
        b"\x02\x01a\x01\x01x",
        b"\x04\x01a\x01\x01x\x01y",
        b"\x07\x01m\x81\x01\x02\x03\x04\x05\x06\x07\x08\x01\x05\x02\x05\x03\0\0\0\0\x04\0\0\0\0\0\0\0\0\x05\x02hi\0",
        b"\xf7\x81\x01\x02\x03\x04\x05\x06\x07\x08\x02\x02\x05\x02hi\0",
    ];
    for value in values {
        let content = [value, b"\0\x01s\x01t"].concat();
        let contents = outcome(&by_hand("0009", &content)).expect("right");
        assert_eq!(contents.keys, 1, "{}", value.escape_ascii());
    }
}

/// What precedes a key of another type, or database, is not that of the next one.
#[test]
fn an_expiry_is_that_of_the_next_key_only() {
    let time = b"\xfc\0\0\0\0\0\x01\0\0";
    let list = b"\x01\x01l\x01\x01x";
    let content = [
        &time[..],
        list,
        b"\0\x01a\x01b",
        time,
        b"\0\x01c\x01d",
        b"\0\x01e\x01f",
        b"\xfe\x02",
        time,
        b"\0\x01x\x01y",
        b"\xfe\0",
        b"\0\x01g\x01h",
    ]
    .concat();
    let (read, contents) = collect(&by_hand("0010", &content)).expect("right");
    let expiring = read.iter().filter(|(_, (_, time))| time.is_some());
    assert!(expiring.map(|(key, _)| &key[..]).eq([b"c"]));
    assert_eq!((contents.keys, contents.other_databases), (4, 1));
}

/// Valkey from 9.0 on has a mark of its own, and the numbers of its types are its own from 22 on.
#[test]
fn a_file_of_valkey() {
    let with =
        |version: &[u8], content: &[u8]| [b"VALKEY", version, content, b"\xff", &[0; 8]].concat();
    let content = [
        // Slots that were being moved: a name, and two ranges.
        &b"\xf3\x01j\x02\0\x05\x07\x09"[..],
        b"\xf4\x01\x02\0",
        // A hash of two fields with times.
        b"\x16\x01h\x02\x01f\x01v\xff\xff\xff\xff\xff\xff\xff\xff\x01g\x01w\0\0\0\0\0\x01\0\0",
        b"\0\x01a\x01b",
    ]
    .concat();
    let (read, contents) = collect(&with(b"080", &content)).expect("right");
    assert!(read.keys().eq([b"a"]), "{read:?}");
    assert_eq!((contents.keys, contents.other_types["hash"]), (1, 1));
    for (version, is_foreign) in [
        (&b"081"[..], true),
        (b"011", true),
        (b"000", false),
        (b"8 0", false),
    ] {
        let error = outcome(&with(version, b"")).expect_err("not known");
        assert_eq!(
            matches!(error, Error::Foreign { .. }),
            is_foreign,
            "{error}"
        );
    }
    // What is Redis's only, and what is Valkey's only.
    outcome(&with(b"080", b"\x17\x01h\x01x")).expect_err("a type of Redis");
    outcome(&by_hand("0012", b"\xf3\x01j\0")).expect_err("an opcode of Valkey");
}

#[test]
fn what_is_not_for_us() {
    for (content, offset) in [
        (&b"\x06\x01m\x01"[..], 12),
        // No key, and one that is too long.
        (b"\0\0\x01a", 10),
        (&[&b"\0\x42\x01"[..], &[b'k'; 513], b"\x01a"].concat(), 10),
        // A value of a gigabyte.
        (b"\0\x01k\x80\x40\0\0\0", 12),
    ] {
        match outcome(&by_hand("0010", content)) {
            Err(Error::Foreign { offset: at, .. }) => assert_eq!(at, offset),
            other => panic!("{}: {other:?}", content.escape_ascii()),
        }
    }
    for version in ["0013", "9999"] {
        assert!(matches!(
            outcome(&by_hand(version, b"")),
            Err(Error::Foreign { .. })
        ));
    }
    for version in ["0000", "-001", "+010", "001a"] {
        assert!(matches!(
            outcome(&by_hand(version, b"")),
            Err(Error::Damaged { .. })
        ));
    }
    // Long keys of other types and databases are in nobody's way.
    let long = [
        &b"\x01\x42\x01"[..],
        &[b'k'; 513],
        b"\x01\x01a\xfe\x01\0\0\x01a",
    ]
    .concat();
    let contents = outcome(&by_hand("0010", &long)).expect("right");
    assert_eq!((contents.keys, contents.other_databases), (0, 1));
}

/// A client of Redis may name a string as bpfdb names what is its own.
#[test]
fn a_string_is_nothing_of_our_own() {
    let name = bpfdb::FUNCTIONS_KEY;
    let content = [&[0, name.len() as u8], name, b"\x05value\0\x01a\x01b"].concat();
    let (read, contents) = collect(&by_hand("0010", &content)).expect("right");
    assert!(read.keys().eq([b"a"]), "{read:?}");
    assert_eq!((contents.keys, contents.reserved), (1, 1));
    assert!(contents.other_types.is_empty());
}

/// Libraries of no length are as many as libraries of some.
#[test]
fn libraries_are_bounded() {
    let empty = b"\xf5\0".repeat(1_000_000);
    match outcome(&by_hand("0010", &empty)) {
        Err(Error::Foreign { offset, .. }) => assert!(offset < 600_000, "{offset}"),
        other => panic!("{other:?}"),
    }
}
