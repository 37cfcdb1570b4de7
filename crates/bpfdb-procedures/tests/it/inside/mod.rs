//! Compiled procedures that this process calls itself.
//!
//! ```text
//! replies.rs   every kind of reply, texts up to the limits
//! numbers.rs   division, by literals and others
//! failures.rs  what fails leaves nothing, and is told apart
//! batches.rs   many calls in a system call
//! collections.rs small hashes, lists, sets and sorted sets
//! busy.rs      the reaper is in the caller's session and stays
//! threads.rs   several sessions at a time, libraries that are replaced
//! time.rs      how long a call may take
//! ```

mod batches;
mod busy;
mod collections;
mod failures;
mod numbers;
mod replies;
mod threads;
mod time;

use bpfdb::{Engine, Options, Session};
use bpfdb_procedures::inside::{CallError, Compiler, Failure, Library, Reply};
use bpfdb_tests::lent::{Lent, Pool};

fn options() -> Options {
    Options {
        memory_limit: 128 << 20,
        user_sessions: 4,
        ..Options::default()
    }
}

fn create() -> Engine {
    Engine::create(&options()).expect("the engine starts")
}

/// An empty engine with these options, for this test alone.
fn engine() -> Lent<Engine> {
    static ENGINES: Pool<Engine> = Pool::new();
    ENGINES.take(create)
}

fn compiler(engine: &Engine) -> Compiler {
    Compiler::new(engine).unwrap_or_else(|error| panic!("{error}"))
}

/// A library of these functions, by name and body.
fn library(compiler: &Compiler, functions: &[(&str, &str)]) -> Library {
    let text: String = functions
        .iter()
        .map(|(name, body)| {
            format!("redis.register_function('{name}', function(keys, args) {body} end)\n")
        })
        .collect();
    let library = compiler.library(format!("#!lua name=test\n{text}").as_bytes());
    library.unwrap_or_else(|error| panic!("{error}"))
}

/// The library of one function, `f`, whose engine has nothing else to do.
struct Alone {
    session: Session,
    library: Library,
    /// Goes back after the session has ended.
    _engine: Option<Lent<Engine>>,
}

impl Alone {
    fn new(body: &str) -> Self {
        let engine = engine();
        let alone = Self::on(&engine, body);
        Self {
            _engine: Some(engine),
            ..alone
        }
    }

    fn on(engine: &Engine, body: &str) -> Self {
        Self {
            library: library(&compiler(engine), &[("f", body)]),
            session: engine.session().expect("a session"),
            _engine: None,
        }
    }

    fn call(&mut self, keys: &[&[u8]], arguments: &[&[u8]]) -> Result<Reply, CallError> {
        self.library.call(&mut self.session, "f", keys, arguments)
    }
}

fn failure(outcome: Result<Reply, CallError>) -> Failure {
    match outcome {
        Err(CallError::Failed(failure)) => failure,
        other => panic!("it should have failed: {other:?}"),
    }
}

fn number(session: &mut Session, key: &[u8]) -> Option<u64> {
    let value = session.get(key).expect("it is read")?;
    let text = String::from_utf8(value).expect("a text");
    Some(text.parse().expect("a number"))
}
