//! What readers and writers take of memory: neither a long value nor a length that a damaged
//! file states makes it much.

use crate::it::common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};

use bpfdb::ValueType;
use bpfdb_copies::{Choice, Error, Format, Key, Nowhere, read};
use bpfdb_tests::process::alone_in_a_process;
use common::{FORMS, HEADER};

/// Bytes now, and most of them at a time.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does it; only numbers are kept beside.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most bytes that `work` has at a time.
fn taken(work: impl FnOnce()) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    work();
    MOST.load(Ordering::Relaxed) - before
}

/// Whatever the form: a few lines of JSON, or blocks.
const ENOUGH: usize = 12 << 20;

/// In a process of its own, since what other tests allocate would be counted too.
#[test]
fn long_values_and_promises_take_little_memory() {
    let name = "it::memory::long_values_and_promises_take_little_memory";
    alone_in_a_process(name, || {
        long_values_are_written_and_read_in_parts();
        promises_of_damaged_files_take_nothing();
        promises_of_collections_take_what_has_come();
        compressed_values_pass_through_a_window();
        a_compressed_stream_takes_its_bytes();
    });
}

fn long_values_are_written_and_read_in_parts() {
    const LEN: u64 = 96 << 20;
    for form in FORMS {
        let mut file = tempfile::tempfile().expect("a file");
        let writing = taken(|| {
            let mut writer = form.writer(&file, &HEADER).expect("a writer");
            let key = Key {
                name: b"long",
                kind: ValueType::STRING,
                len: LEN,
                expires_at: None,
            };
            writer.key(&key).expect("written");
            // Of every byte JSON makes six.
            let part = [1; 1 << 20];
            for _ in 0..LEN >> 20 {
                writer.part(&part).expect("written");
            }
            writer.finish().expect("written");
        });
        io::Seek::rewind(&mut file).expect("rewound");
        let reading = taken(|| {
            let (_, contents) = read(&file, Choice::default(), &mut Nowhere).expect("right");
            assert_eq!(contents.bytes, LEN);
        });
        assert!(
            writing < ENOUGH && reading < ENOUGH,
            "{form:?}: {writing}, {reading}"
        );
    }
}

fn promises_of_damaged_files_take_nothing() {
    let mut header = Vec::new();
    (Format::Jsonl.writer(&mut header, &HEADER))
        .and_then(|writer| writer.finish())
        .expect("written");
    let first = header
        .iter()
        .position(|&byte| byte == b'\n')
        .expect("a line")
        + 1;
    header.truncate(first);
    let endless = |begin: Vec<u8>| io::Cursor::new(begin).chain(io::repeat(b'a').take(1 << 28));
    let files = [
        // A value of 512 MiB, plain and compressed; a key of the most that there is.
        [&b"REDIS0010\0\x01a"[..], &[0x80, 0x20, 0, 0, 0]].concat(),
        [
            &b"REDIS0010\0\x01a"[..],
            &[0xc3, 0x80, 0x20, 0, 0, 0, 0x80, 0x20, 0, 0, 0],
        ]
        .concat(),
        [&b"REDIS0010\0"[..], &[0x81, 0x7f, 0, 0, 0, 0, 0, 0, 0]].concat(),
        // A list of very many elements, in a database that is not taken.
        [
            &b"REDIS0010\xfe\x10\x01\x01l"[..],
            &[0x81, 0x7f, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat(),
        // A line without end, and a long value of nothing.
        [&header[..], b"{\"key\":\""].concat(),
        [
            &header[..],
            b"{\"key\":\"a\",\"bytes\":536870912}\n{\"part\":\"",
        ]
        .concat(),
    ];
    for file in files {
        let begin = file.escape_ascii().to_string();
        let bytes = taken(|| {
            let outcome = read(endless(file), Choice::default(), &mut Nowhere);
            assert!(outcome.is_err(), "{begin}");
        });
        assert!(bytes < ENOUGH, "{begin}: {bytes}");
    }
}

/// Of a collection, what has come is kept: a mebibyte, and not what it promises.
fn promises_of_collections_take_what_has_come() {
    let many = [0x81, 0x7f, 0, 0, 0, 0, 0, 0, 0];
    for number in [1, 2, 3, 4, 5, 14, 18, 22, 24] {
        let begin = [&b"REDIS0012"[..], &[number], b"\x01k", &many].concat();
        let file = io::Cursor::new(begin).chain(io::repeat(b'a').take(1 << 20));
        let bytes = taken(|| {
            let outcome = read(file, Choice::default(), &mut Nowhere);
            assert!(outcome.is_err(), "type {number}");
        });
        assert!(bytes < ENOUGH, "type {number}: {bytes}");
    }
}

fn compressed_values_pass_through_a_window() {
    // One byte, and references to it: 264 bytes each.
    const REFERENCES: usize = 1 << 20;
    let stored = 2 + 3 * REFERENCES as u32;
    let len = 1 + 264 * REFERENCES as u32;
    let mut bytes = b"REDIS0010\0\x01a\xc3".to_vec();
    for number in [stored, len] {
        bytes.push(0x80);
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.extend_from_slice(&[0, b'x']);
    bytes.extend_from_slice(&[7 << 5, 0xff, 0].repeat(REFERENCES));
    bytes.push(0xff);
    bytes.extend_from_slice(&[0; 8]);
    let reading = taken(|| {
        let outcome = read(&bytes[..], Choice::default(), &mut Nowhere);
        assert_eq!(outcome.expect("right").1.bytes, u64::from(len));
    });
    assert!(reading < ENOUGH, "{reading}");
    // And too many of them.
    let last = bytes.len() - 9;
    let more = [&bytes[..last], &[7 << 5, 0xff, 0]].concat();
    assert!(matches!(
        read(&more[..], Choice::default(), &mut Nowhere),
        Err(Error::Damaged { .. })
    ));
}

/// An entry of very many pairs, all of them ones, whose listpack is all but a few bytes the same.
fn a_compressed_stream_takes_its_bytes() {
    const REFERENCES: usize = 60_000;
    const BODY: usize = 264 * REFERENCES;
    let pairs = (BODY / 4) as u32;
    let long = |number: u32| [&[0xf3][..], &number.to_le_bytes(), &[5]].concat();
    // Counters, the field of the block, and what an entry begins with.
    let begin = [
        &[1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1][..],
        &long(pairs),
    ];
    let (begin, end) = (begin.concat(), [&long(2 * pairs + 4)[..], &[0xff]].concat());
    let len = (6 + begin.len() + BODY + end.len()) as u32;
    let literal = |bytes: &[u8]| [&[bytes.len() as u8 - 1][..], bytes].concat();
    let compressed = [
        literal(&[&len.to_le_bytes()[..], &[0xff; 2], &begin, &[1]].concat()),
        [7 << 5, 0xff, 0].repeat(REFERENCES - 1),
        literal(&[1; 263 - 240]),
        [7 << 5, 240 - 9, 0].to_vec(),
        literal(&end),
    ]
    .concat();
    let mut file = b"REDIS0010\x13\x01s\x01\x10\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\xc3".to_vec();
    for number in [compressed.len() as u32, len] {
        file.push(0x80);
        file.extend_from_slice(&number.to_be_bytes());
    }
    file.extend_from_slice(&compressed);
    // One entry, 1-0 last and first, none removed, one ever; no group.
    file.extend_from_slice(&[1, 1, 0, 1, 0, 0, 0, 1, 0, 0xff]);
    file.extend_from_slice(&[0; 8]);
    let reading = taken(|| {
        let outcome = read(&file[..], Choice::default(), &mut Nowhere);
        assert_eq!(outcome.expect("right").1.keys, 1);
    });
    assert!(reading < 5 * len as usize, "{reading} for {len}");
}
