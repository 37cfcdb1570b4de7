//! Collections of all types and sizes, while servers are killed: what comes back is a whole
//! collection, never half of one.
//!
//! Each writer has two keys, of two types, and writes both in one transaction, one step after the
//! other. The content of each says its step, in every element: a collection with elements of two steps,
//! or with another number of them, is none that was ever written. The step is one that the writer was
//! shown, or a later one that was under way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bpfdb_tests::random::Random;
use bpfdb_tests::server::Reply;
use bpfdb_tests::settings;

use crate::common::{Connection, Served, alone, request};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Hash,
    List,
    Set,
    SortedSet,
}

/// So many elements, each made longer to so many bytes.
#[derive(Clone, Copy, Debug)]
struct Size {
    elements: usize,
    bytes: usize,
}

/// Compact; beyond 128 elements; beyond what lies in a slot; beyond 1 MiB.
const SIZES: [Size; 4] = [
    Size {
        elements: 12,
        bytes: 10,
    },
    Size {
        elements: 200,
        bytes: 20,
    },
    Size {
        elements: 520,
        bytes: 70,
    },
    Size {
        elements: 36,
        bytes: 30_000,
    },
];

const KINDS: [[Kind; 2]; 4] = [
    [Kind::Hash, Kind::SortedSet],
    [Kind::List, Kind::Set],
    [Kind::Set, Kind::Hash],
    [Kind::SortedSet, Kind::List],
];

impl Kind {
    /// What writes the elements of a step into a key that is absent; no command has more than some of
    /// the elements.
    fn write(self, key: &str, size: Size, step: u64) -> Vec<String> {
        const TOGETHER: usize = 100;
        let numbers: Vec<usize> = (0..size.elements).collect();
        let command = |numbers: &[usize]| {
            let mut words = vec![self.command().to_owned(), key.to_owned()];
            for number in numbers {
                words.extend(self.element(size, step, *number));
            }
            request(&words)
        };
        numbers.chunks(TOGETHER).map(command).collect()
    }

    fn command(self) -> &'static str {
        match self {
            Self::Hash => "HSET",
            Self::List => "RPUSH",
            Self::Set => "SADD",
            Self::SortedSet => "ZADD",
        }
    }

    /// Words of one element.
    fn element(self, size: Size, step: u64, number: usize) -> Vec<String> {
        let text = format!("{step}:{number}:");
        let text = format!("{text:.<len$}", len = size.bytes);
        match self {
            Self::Hash => vec![format!("field {number}"), text],
            Self::List | Self::Set => vec![text],
            Self::SortedSet => vec![format!("{number}"), text],
        }
    }

    fn read(self, key: &str) -> String {
        match self {
            Self::Hash => request(&["HGETALL", key]),
            Self::List => request(&["LRANGE", key, "0", "-1"]),
            Self::Set => request(&["SMEMBERS", key]),
            Self::SortedSet => request(&["ZRANGE", key, "0", "-1", "WITHSCORES"]),
        }
    }

    /// The step whose elements these are, all of them and no others; `None`: there are none.
    fn step(self, size: Size, found: &Reply) -> Result<Option<u64>, String> {
        let Some(last) = found.items.last() else {
            return Ok(None);
        };
        let text = |reply: &Reply| String::from_utf8_lossy(&reply.text).into_owned();
        let of_step = match self {
            // Scores stand behind the elements.
            Self::SortedSet => &found.items[0],
            _ => last,
        };
        let of_step = text(of_step);
        let step = of_step.split(':').next().and_then(|step| step.parse().ok());
        let step: u64 = step.ok_or_else(|| format!("{of_step:.40} is no element"))?;
        let mut found: Vec<String> = found.items.iter().map(text).collect();
        let elements = (0..size.elements).map(|number| self.element(size, step, number));
        let mut wanted: Vec<String> = match self {
            Self::SortedSet => elements.flat_map(|pair| pair.into_iter().rev()).collect(),
            _ => elements.flatten().collect(),
        };
        if matches!(self, Self::Hash | Self::Set) {
            found.sort();
            wanted.sort();
        }
        match found == wanted {
            true => Ok(Some(step)),
            false => Err(format!(
                "{self:?} {size:?}: {} words, of which {} belong to step {step}",
                found.len(),
                found.iter().filter(|word| wanted.contains(word)).count()
            )),
        }
    }
}

/// How the transaction around a step is said.
#[derive(Clone, Copy, Debug)]
enum Way {
    Block,
    Steps,
}

struct Writer {
    number: usize,
    size: Size,
    kinds: [Kind; 2],
    way: Way,
    /// The last step that it got a reply for, and the last one that it has begun.
    known: u64,
    begun: u64,
    /// One that was found after a loss of power.
    durable: u64,
}

/// The disk may be slower than the writers.
const NO_ROOM: &str = "the log has no room";

impl Writer {
    fn all() -> Vec<Self> {
        let writer = |number: usize| Self {
            number,
            size: SIZES[number],
            kinds: KINDS[number],
            way: [Way::Block, Way::Steps][number % 2],
            known: 0,
            begun: 0,
            durable: 0,
        };
        (0..SIZES.len()).map(writer).collect()
    }

    fn keys(&self) -> [String; 2] {
        ["first", "second"].map(|place| format!("{place} of {}", self.number))
    }

    /// Until the server is gone.
    fn work(&mut self, port: u16, over: &AtomicBool) {
        let Some(mut connection) = Connection::try_open(port) else {
            return;
        };
        while !over.load(Ordering::Relaxed) {
            self.begun += 1;
            match self.step(&mut connection) {
                Some(true) => self.known = self.begun,
                Some(false) => thread::sleep(Duration::from_millis(5)),
                None => return,
            }
        }
    }

    /// `None`: the server is gone. False: nothing of it is done, for want of room in the log.
    fn step(&self, connection: &mut Connection) -> Option<bool> {
        let (begin, end) = match self.way {
            Way::Block => ("MULTI", "EXEC"),
            Way::Steps => ("BEGIN", "COMMIT"),
        };
        let keys = self.keys();
        let mut requests = vec![request(&[begin]), request(&["DEL", &keys[0], &keys[1]])];
        for (key, kind) in keys.iter().zip(self.kinds) {
            requests.extend(kind.write(key, self.size, self.begun));
        }
        requests.push(request(&[end]));
        connection.try_send_text(&requests.concat())?;
        for (number, _) in requests.iter().enumerate() {
            let line = connection.try_line()?;
            if number + 1 == requests.len() && line.contains(NO_ROOM) {
                return Some(false);
            }
            assert!(!line.starts_with('-'), "{}: {line}", self.number);
        }
        // What each command of the block says.
        if let Way::Block = self.way {
            for _ in 2..requests.len() {
                let result = connection.try_line()?;
                assert!(result.starts_with(':'), "{}: {result}", self.number);
            }
        }
        Some(true)
    }

    /// What came back.
    fn check(&mut self, server: &Served, after: After, was_always: bool) {
        // Of what is not durable a loss of power may take all.
        let least = match after == After::Kernel || was_always {
            true => self.known,
            false => self.durable,
        };
        let mut connection =
            bpfdb_tests::server::Client::connect(([127, 0, 0, 1], server.port).into());
        let steps = self.keys().map(|key| {
            let kind = self.kinds[usize::from(key.starts_with("second"))];
            connection.send(kind.read(&key).as_bytes());
            let (found, _) = Reply::parse(&connection.reply()).expect("a whole reply");
            assert!(!found.is_error(), "{key}: {found}");
            let step = kind.step(self.size, &found);
            step.unwrap_or_else(|half| panic!("{key}: {half}"))
                .unwrap_or(0)
        });
        assert_eq!(steps[0], steps[1], "one transaction, {:?}", self.keys());
        assert!(
            (least..=self.begun).contains(&steps[0]),
            "{:?}: step {}, not from {least} to {}",
            self.keys(),
            steps[0],
            self.begun
        );
        // It goes on from there.
        (self.known, self.begun) = (steps[0], steps[0]);
        if after == After::Directory {
            self.durable = steps[0];
        }
    }
}

/// What the next server begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Kernel,
    /// As after a loss of power.
    Directory,
}

/// Kills so many servers.
fn crashes(count: usize, seed: u64) {
    alone();
    let folder = tempfile::tempdir().expect("a directory");
    let data = folder.path().join("data");
    let mut random = Random::new(seed);
    let (mut writers, mut server) = (Writer::all(), Served::start_in(&data, 0, &ALWAYS));
    let mut always = true;
    for crash in 0..count {
        let over = AtomicBool::new(false);
        let time = Duration::from_millis(150 + random.below(250) as u64);
        thread::scope(|scope| {
            for writer in &mut writers {
                let (port, over) = (server.port, &over);
                scope.spawn(move || writer.work(port, over));
            }
            thread::sleep(time / 2);
            if random.one_in(3) {
                server.ask(&["BGSAVE"]);
            }
            thread::sleep(time / 2);
            server.kill();
            over.store(true, Ordering::Relaxed);
        });
        // Both kinds of crash have their turn, however few there are.
        let after = [After::Kernel, After::Directory][(crash + 1) % 2];
        let was_always = always;
        always = random.one_in(2) || crash == 0;
        let mut options = if always { ALWAYS } else { EVERYSEC }.to_vec();
        if after == After::Directory {
            options.push("--fresh");
        }
        server = Served::start_in(&data, server.port, &options);
        for writer in &mut writers {
            let begun = writer.begun;
            writer.check(&server, after, was_always);
            println!(
                "{crash} {after:?}, always: {was_always}, {}: step {} of {begun}",
                writer.number, writer.known
            );
        }
    }
    let slowest = writers.iter().map(|writer| writer.known).min();
    assert!(
        slowest > Some(0) || settings::is_emulated(),
        "a writer has done nothing"
    );
    server.stop();
}

const ALWAYS: [&str; 2] = ["--appendfsync", "always"];
const EVERYSEC: [&str; 2] = ["--appendfsync", "everysec"];

#[test]
fn collections_are_whole_when_a_server_is_killed() {
    crashes(3, 1);
}

#[test]
#[ignore = "long: make soak"]
fn soak_collections_are_whole_when_servers_are_killed() {
    let seed = settings::number("BPFDB_SEED").unwrap_or_else(settings::fresh_seed);
    println!("BPFDB_SEED={seed}");
    crashes(300, seed);
}
