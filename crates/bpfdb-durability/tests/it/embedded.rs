//! An owner with a log as docs/embedding.md has it, word for word but for its folders.

use std::error::Error;
use std::path::Path;
use std::thread;
use std::time::Duration;

use bpfdb::Engine;
use bpfdb_durability::Durability;
use bpfdb_tests::namespace;

const PAGE: &str = include_str!("../../../../docs/embedding.md");
const THIS: &str = include_str!("embedded.rs");

type Owner = Result<(Engine, Durability), Box<dyn Error>>;

fn owner(directory: &Path, pins: &Path) -> Owner {
    let options = bpfdb::Options {
        log_ring: 16 << 20,
        ..bpfdb::Options::default()
    };
    let engine = bpfdb::Engine::create(&options)?;
    let disk = bpfdb_log::Directory::own(directory)?;
    let (durability, _) =
        bpfdb_durability::Durability::start(&engine, disk, bpfdb_durability::Options::default())?;
    engine.pin(pins)?;
    Ok((engine, durability))
}

/// What the page says of the next owner.
fn next_owner(directory: &Path, pins: &Path) -> Owner {
    let engine = Engine::open(pins, 0)?;
    let disk = bpfdb_log::Directory::own(directory)?;
    let (durability, _) = Durability::start(&engine, disk, bpfdb_durability::Options::default())?;
    Ok((engine, durability))
}

/// A child that another test has just forked has the files of this process, also those that are locked, until it
/// becomes another program.
fn begin(start: impl Fn() -> Owner) -> (Engine, Durability) {
    let mut last = None;
    for _ in 0..1000 {
        match start() {
            Ok(owner) => return owner,
            Err(error) => last = Some(error),
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("{}", last.expect("an error"));
}

/// Without what a formatter adds, and without remarks.
fn code(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split("   //").next().unwrap_or_default());
    let words = lines
        .collect::<String>()
        .split_whitespace()
        .collect::<String>();
    words.replace(",}", "}").replace(",)", ")")
}

#[test]
fn an_owner_as_on_the_page_has_its_data_again() {
    let begun = PAGE
        .split("```rust\nlet options = bpfdb::Options { log_ring")
        .nth(1);
    let rest = begun
        .and_then(|rest| rest.split("```").next())
        .expect("the page has it");
    let snippet = code(&format!("let options = bpfdb::Options {{ log_ring{rest}"))
        .replace("\"/var/lib/counts\".as_ref()", "directory")
        .replace("\"/sys/fs/bpf/counts\".as_ref()", "pins");
    assert!(code(THIS).contains(&snippet), "{snippet}");

    let files = namespace::files();
    let log = files.folder.join("log");
    let first = files.pins.join("first");
    let set = |(engine, durability): (Engine, Durability), key: &[u8]| {
        let mut session = engine.session().expect("a session");
        session.set(key, b"kept").expect("set");
        durability.settle(engine.now()).expect("the disk is well");
    };
    set(begin(|| owner(&log, &first)), b"a");
    set(begin(|| next_owner(&log, &first)), b"b");
    // On an engine that has nothing.
    let second = files.pins.join("second");
    let (engine, _durability) = begin(|| owner(&log, &second));
    let mut session = engine.session().expect("a session");
    for key in [b"a", b"b"] {
        assert_eq!(session.get(key), Ok(Some(b"kept".to_vec())));
    }
}
