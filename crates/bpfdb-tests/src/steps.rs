//! Writers that no process runs (`bpf/tests/steps.bpf.c`): an engine that is pinned has them go on
//! without its owner.

use std::thread::sleep;
use std::time::{Duration, Instant};

use bpfdb::{Engine, Program, find_program, objects, open_object};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};

use crate::timer;

/// Keys of a writer, in the order in which the programs number them: five slots, then these.
pub const KEYS: usize = 8;
/// Bytes of a key, at most.
const NAME: usize = 32;
/// Longer than a busy machine takes for a tick of a timer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The programs of an engine's writers. These end when this is dropped.
pub struct Steps {
    start: Program,
    rest: Program,
    names: MapHandle,
    writers: MapHandle,
    /// Holds the programs of the timers.
    _object: Object,
}

/// What a writer has come to.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The step that it tries.
    pub tried: u64,
    /// The last one that it committed.
    pub committed: u64,
    /// The last one that is on the disk, of a writer that waits for that.
    pub durable: u64,
}

impl Steps {
    pub fn load(engine: &Engine) -> Self {
        let named = |object: &&objects::TestObject| object.name == "steps";
        let bytes = objects::TESTS.iter().find(named).expect("embedded").bytes;
        let mut object = open_object(bytes, "steps").expect("the object opens");
        engine.adopt(&mut object).expect("it is adopted");
        let object = object.load().expect("it is loaded");
        let find = |name: &str| find_program(&object, name).expect("a program of the object");
        let map = |name: &str| {
            let map = object.maps().find(|map| map.name() == name);
            MapHandle::try_from(&map.expect("a map of the object")).expect("a handle")
        };
        Self {
            start: find("steps_start"),
            rest: find("steps_rest"),
            names: map("steps_names"),
            writers: map("steps_writers"),
            _object: object,
        }
    }

    /// Before the writer begins.
    pub fn set_keys(&self, writer: usize, keys: [String; KEYS]) {
        for (number, key) in keys.iter().enumerate() {
            assert!(key.len() <= NAME, "{key} is too long");
            let mut name = (key.len() as u64).to_le_bytes().to_vec();
            name.extend_from_slice(key.as_bytes());
            name.resize(8 + NAME, 0);
            let number = (writer * KEYS + number) as u32;
            let written = self
                .names
                .update(&number.to_ne_bytes(), &name, MapFlags::ANY);
            written.expect("the name of a key");
        }
    }

    /// Has a writer that rests go on with this step. If it waits, each step must be on the disk
    /// before it tries the next one.
    pub fn start(&self, writer: usize, first: u64, waits: bool) {
        let orders = [writer as u64, first, waits.into()];
        timer::start(|| self.start.run(&orders).expect("it runs"));
    }

    /// The transaction that the writer has open is rolled back, and it begins none.
    pub fn rest(&self, writer: usize) {
        let begun = Instant::now();
        while self.rest.run(&[writer as u64, 0, 0]).expect("it runs") == 0 {
            assert!(begun.elapsed() < PATIENCE, "writer {writer} does not stop");
            sleep(Duration::from_millis(1));
        }
    }

    pub fn progress(&self, writer: usize) -> Progress {
        let number = (writer as u32).to_ne_bytes();
        let found = self.writers.lookup(&number, MapFlags::ANY);
        let bytes = found.expect("a look-up").expect("the writer");
        let (words, _) = bytes.as_chunks();
        // The first three have what it got.
        let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let [_, _, _, tried, committed, _, durable, unexpected] = words[..] else {
            panic!("{words:?}");
        };
        assert_eq!(unexpected, 0, "status that writer {writer} was told");
        Progress {
            tried,
            committed,
            durable,
        }
    }
}
