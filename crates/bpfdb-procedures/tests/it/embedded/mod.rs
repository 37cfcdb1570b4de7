//! Compiled procedures that embedded programs call.
//!
//! ```text
//! example.rs    examples/limit_packets.bpf.c on packets made by hand
//! callers.rs    types of programs that call
//! calls.rs      outcomes, replies, functions that are replaced while they are called
//! nested.rs     calls that interrupt others, and frames that are another task's
//! busy.rs       a visitor is in the caller's session and stays
//! ```

mod busy;
mod callers;
mod calls;
mod example;
mod nested;

use bpfdb::objects::TestObject;
use bpfdb::{Engine, Options, Program, Session};
use bpfdb_procedures::embedded::Published;
use bpfdb_tests::lent::{Lent, Pool};
use libbpf_rs::{MapCore, MapFlags, Object};

/// Numbers of functions in bpf/tests/calls.bpf.c.
const ADD: u32 = 1;
const ECHO: u32 = 2;

/// All memory is there from the beginning: programs cannot wait for more.
fn engine() -> Lent<Engine> {
    static ENGINES: Pool<Engine> = Pool::new();
    let options = Options {
        memory_limit: 64 << 20,
        memory_ahead: 64 << 20,
        user_sessions: 4,
        ..Options::default()
    };
    ENGINES.take(|| Engine::create(&options).expect("the engine starts"))
}

fn load(engine: &Engine, objects: &[TestObject], name: &str) -> Object {
    let object = objects.iter().find(|object| object.name == name);
    let bytes = object.expect("it is embedded").bytes;
    let mut object = bpfdb::open_object(bytes, name).expect("the object opens");
    engine.adopt(&mut object).expect("it is adopted");
    object
        .load()
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A library of these functions, by name and body.
fn library(functions: &[(&str, &str)]) -> Vec<u8> {
    let text: String = functions
        .iter()
        .map(|(name, body)| {
            format!("redis.register_function('{name}', function(keys, args) {body} end)\n")
        })
        .collect();
    format!("#!lua name=test\n{text}").into_bytes()
}

/// bpf/tests/calls.bpf.c with the functions that it calls.
struct Calls {
    published: Published,
    object: Object,
    sessions: Vec<u32>,
    engine: Lent<Engine>,
}

impl Calls {
    fn new(add: &str) -> Self {
        let engine = engine();
        let object = load(&engine, bpfdb::objects::TESTS, "calls");
        let mut published =
            Published::new(&engine, &object, "calls_add").expect("procedures for it");
        let text = library(&[("add", add), ("echo", "return args[1]")]);
        let functions = [(ADD, "add"), (ECHO, "echo")];
        published.publish(&text, &functions).expect("published");
        let open = || engine.open_session().expect("it runs").expect("a session");
        Self {
            published,
            object,
            sessions: (0..2).map(|_| open()).collect(),
            engine,
        }
    }

    fn program(&self, name: &str) -> Program {
        bpfdb::find_program(&self.object, name).expect("it is there")
    }

    /// What the program returns, with the first session and these arguments.
    fn run(&self, name: &str, arguments: &[u64]) -> u32 {
        let arguments = [&[self.sessions[0].into()], arguments].concat();
        self.program(name).run(&arguments).expect("it runs")
    }

    fn session(&self) -> Session {
        self.engine.session().expect("a session")
    }

    fn map(&self, name: &str) -> libbpf_rs::Map<'_> {
        let map = self.object.maps().find(|map| map.name() == name);
        map.expect("it is there")
    }

    fn put(&self, map: &str, value: &[u8]) {
        let first = 0u32.to_ne_bytes();
        let put = self.map(map).update(&first, value, MapFlags::ANY);
        put.expect("it is written");
    }

    fn take(&self, map: &str, number: u32) -> Vec<u8> {
        let value = self.map(map).lookup(&number.to_ne_bytes(), MapFlags::ANY);
        value.expect("it is read").expect("it is there")
    }

    /// No call is under way: every frame is free.
    fn assert_all_frames_are_free(&self) {
        for number in 0..bpfdb::abi::BPFDB_FRAMES {
            let frame = self.take("frames", number);
            assert_eq!(frame[..4], [0; 4], "frame {number}");
        }
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        for &session in &self.sessions {
            self.engine.close_session(session).expect("it is closed");
        }
    }
}

fn number(session: &mut Session, key: &[u8]) -> u64 {
    let value = session.get(key).expect("it is read").unwrap_or_default();
    let text = String::from_utf8(value).expect("a text");
    text.parse().unwrap_or(0)
}
