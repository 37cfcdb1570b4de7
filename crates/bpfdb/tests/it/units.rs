//! The unit tests that are written in BPF: every program `test_*` of the objects in `bpf/tests`.
//! A program returns 0 or the line of the expectation that failed.
//!
//! A test here runs all programs of an object, in their order, on an engine of the object's own, and
//! names each that fails. The verifier needs most of the time, so an object is loaded once: what its
//! programs returned, and how many instructions the verifier processed (for the test `budgets`), are
//! kept until the process ends.

use crate::common;

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use bpfdb::objects::{TESTS, TestObject};
use bpfdb::{Engine, Options};
use libbpf_rs::Object;

const PREFIX: &str = "test_";
/// Where `bpf/tests/expectation.bpf.c` keeps programs that must fail, by line.
const EXPECTATION: &str = "expectation";
const FAILS: &str = "fails_in_line_";
/// Where the program is that stops the engine's timer.
const QUIET: &str = "quiet";
/// Objects that test what an engine with a log does.
const WITH_LOG: [&str; 1] = ["record"];
/// Bytes of each of its rings: more than these tests write.
const RING: u32 = 1 << 20;

/// What there is to know about an object.
pub(crate) struct Outcome {
    /// How many instructions the verifier processed of each program; or why the object does not load.
    pub(crate) verified: Result<BTreeMap<String, u64>, String>,
    /// What became of each program whose name has one of the prefixes.
    returned: BTreeMap<String, Result<(), String>>,
}

/// Loads the object and runs its programs, unless another test of this process has done so.
pub(crate) fn outcome(object: &TestObject) -> &'static Outcome {
    static KNOWN: LazyLock<Vec<OnceLock<Outcome>>> =
        LazyLock::new(|| TESTS.iter().map(|_| OnceLock::new()).collect());
    let place = TESTS.iter().position(|other| other.name == object.name);
    KNOWN[place.expect("an object of the tests")].get_or_init(|| load_and_run(object))
}

fn load_and_run(object: &TestObject) -> Outcome {
    let has_log = WITH_LOG.contains(&object.name);
    let engine = Engine::create(&Options {
        log_ring: if has_log { RING } else { 0 },
        ..common::options()
    });
    let engine = engine.expect("the engine starts");
    if object.name != QUIET {
        stop_maintenance(&engine);
    }
    let open = common::open(&engine, object.bytes, object.name);
    let loaded = match open.load() {
        Ok(loaded) => loaded,
        Err(error) => {
            return Outcome {
                verified: Err(format!("{} does not load: {error}", object.name)),
                returned: BTreeMap::new(),
            };
        }
    };
    let returned = common::programs(&loaded)
        .filter(|name| name.starts_with(PREFIX) || name.starts_with(FAILS))
        .map(|name| (name.clone(), run(object, &loaded, &name)))
        .collect();
    Outcome {
        verified: Ok(common::verified(&loaded)),
        returned,
    }
}

/// A program that a tick disturbs would fail now and then, on a slow machine more often.
fn stop_maintenance(engine: &Engine) {
    let quiet = common::open(engine, named(QUIET).bytes, QUIET);
    let quiet = quiet.load().expect("it is loaded");
    let program = bpfdb::find_program(&quiet, "stop_maintenance").expect("it is there");
    assert_eq!(program.run(&[]).expect("it runs"), 0);
}

fn run(object: &TestObject, loaded: &Object, program: &str) -> Result<(), String> {
    let program = bpfdb::find_program(loaded, program).map_err(|error| error.to_string())?;
    match program.run(&[]).map_err(|error| error.to_string())? {
        0 => Ok(()),
        line => Err(format!("bpf/tests/{}.bpf.c:{line}", object.name)),
    }
}

fn named(name: &str) -> &'static TestObject {
    let object = TESTS.iter().find(|object| object.name == name);
    object.unwrap_or_else(|| panic!("no object {name}"))
}

/// Every program of the object returns 0.
fn pass(name: &str) {
    let outcome = outcome(named(name));
    assert_eq!(outcome.verified.as_ref().err(), None);
    let failed: Vec<String> = (outcome.returned.iter())
        .filter_map(|(program, returned)| {
            let reason = returned.as_ref().err()?;
            Some(format!("{name}::{program}: {reason}"))
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(!outcome.returned.is_empty(), "{name} has no tests");
}

/// A test for each of these objects, of the same name.
macro_rules! objects {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[test]
            fn $name() {
                pass(stringify!($name));
            }
        )*
    };
}

objects! {
    checkpoint
    chosen
    commit
    expiry
    halfway
    hash
    hopscotch
    index
    large
    locks
    ordered
    reclaim
    record
    scan
    sessions
    skewed
    slab
    versions
    visible
}

/// No object is forgotten in the list above.
#[test]
fn every_object_with_tests_has_a_test() {
    let with_tests: Vec<&str> = (TESTS.iter())
        .filter(|object| {
            let open = bpfdb::open_object(object.bytes, object.name).expect("the object opens");
            let names = open.progs().map(|program| program.name().to_owned());
            let names: Vec<_> = names.collect();
            names
                .iter()
                .any(|name| name.to_string_lossy().starts_with(PREFIX))
        })
        .map(|object| object.name)
        .collect();
    assert_eq!(with_tests, NAMES);
}

#[test]
fn a_failing_expectation_is_noticed() {
    let returned = &outcome(named(EXPECTATION)).returned;
    assert_eq!(returned.len(), 2, "{returned:?}");
    for (name, returned) in returned {
        let line = name.strip_prefix(FAILS).expect("the line");
        let expected = format!("bpf/tests/{EXPECTATION}.bpf.c:{line}");
        assert_eq!(returned, &Err(expected), "{name}");
    }
}
