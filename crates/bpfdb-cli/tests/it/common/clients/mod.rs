//! Clients of all kinds that go on until their server is gone, and what must be there afterwards.
//!
//! Each client has keys of its own, and its steps write them one after the other. What the n-th
//! step writes follows from n (`step`). So the keys show after a crash which steps are there: all
//! up to one, and none after it; anything else is half a transaction, or a hole. How far that must
//! be at least follows from what the client was replied, in this life of the server and in those
//! before (`history`).

#![allow(unused_imports, reason = "each test file uses its part")]

mod attached;
mod batches;
mod beside;
mod embedded;
mod history;
mod kind;
mod reader;
mod requests;
mod step;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Connection, Served};
pub use history::{Crash, Found, History, Lost};
use kind::{Door, Form, KINDS, Kind, Mode};

pub use beside::Beside;
pub use reader::Reader;
pub use step::{Key, State, Width, Write, writes};

/// Steps between two words about durability of clients that send some now and then.
const NOW_AND_THEN: u64 = 8;
/// Requests in one message.
const PIPELINE: u64 = 16;
/// After a large value, so that the disk is not all theirs.
const PAUSE: Duration = Duration::from_millis(1);

/// One life of a server, as its clients see it.
#[derive(Clone, Copy)]
pub struct Life<'a> {
    pub port: u16,
    pub socket: &'a Path,
    /// What shares the server's engine.
    pub beside: Option<&'a Beside>,
    /// Is the server's default to tell only what is durable?
    pub always: bool,
    /// For clients that do not notice that the server is gone.
    pub over: &'a AtomicBool,
}

/// Hears of each step that was acknowledged: number of the client, step, and whether the client
/// got a reply that it is durable.
pub type Tell = fn(usize, u64, bool);

pub struct Client {
    pub id: usize,
    kind: Kind,
    /// It reads that client's mark.
    neighbour: usize,
    next: u64,
    /// Steps before everything was deleted.
    before: u64,
    pub history: History,
    tell: Tell,
}

/// Why a client stops.
struct Gone;

/// Was the step committed?
type Outcome = Result<bool, Gone>;

impl Client {
    /// All clients, before their first steps.
    pub fn all(tell: Tell) -> Vec<Self> {
        let marked = |id: &usize| KINDS[*id].width() != Width::One;
        let neighbour = |id: usize| {
            let others = (id + 1..KINDS.len()).chain(0..id);
            others.into_iter().find(marked).expect("there are several")
        };
        let client = |(id, kind)| Self {
            id,
            kind,
            neighbour: neighbour(id),
            next: 1,
            before: 0,
            history: History::new(),
            tell,
        };
        KINDS.into_iter().enumerate().map(client).collect()
    }

    /// Steps of all lives.
    pub fn steps(&self) -> u64 {
        self.before + self.next - 1
    }

    /// With the first step, where there is nothing.
    fn begin_anew(&mut self) {
        self.before = self.steps();
        self.next = 1;
        self.history = History::new();
    }

    /// For the report of what happened.
    pub fn describe(&self) -> String {
        format!(
            "client {}: {} steps, {:?}",
            self.id,
            self.steps(),
            self.kind
        )
    }

    /// Is the last step that wrote several keys known by its mark?
    fn has_mark(&self) -> bool {
        self.kind.width() != Width::One
    }

    fn is_embedded(&self) -> bool {
        self.kind.door == Door::Embedded
    }

    /// Are there steps of which it is not known whether they were refused?
    pub fn forgets(&self) -> bool {
        self.kind.form == Form::Pipeline || self.kind.door == Door::Batches
    }

    fn writes(&self, step: u64) -> Vec<Write> {
        writes(step, self.kind.width(), self.kind.large)
    }

    /// Steps until the server is gone.
    pub fn work(&mut self, life: Life<'_>) {
        match self.kind.door {
            Door::Attached => self.work_attached(life),
            Door::Batches => self.work_batches(life),
            Door::Embedded => self.work_embedded(life),
            Door::Tcp | Door::Unix => self.work_connected(life),
        }
    }

    fn work_connected(&mut self, life: Life<'_>) {
        let Ok(mut connection) = self.enter(life) else {
            return;
        };
        while self.advance(&mut connection, life).is_ok() {}
    }

    fn enter(&self, life: Life<'_>) -> Result<Connection, Gone> {
        let connection = match self.kind.door {
            Door::Unix => Connection::try_open_unix(life.socket),
            _ => Connection::try_open(life.port),
        };
        let mut connection = connection.ok_or(Gone)?;
        let word = match self.kind.mode {
            Mode::Sync => "SYNC",
            Mode::Async => "ASYNC",
            _ => "DEFAULT",
        };
        let told = connection.try_ask(&["CLIENT", "DURABILITY", word]);
        assert_eq!(told.ok_or(Gone)?, "+OK");
        if self.kind.form == Form::Function {
            Self::load_function(&mut connection)?;
        }
        Ok(connection)
    }

    fn advance(&mut self, connection: &mut Connection, life: Life<'_>) -> Result<(), Gone> {
        let step = self.next;
        if self.kind.form == Form::Pipeline {
            self.next += PIPELINE;
            self.history.tried(self.next - 1);
            self.pipeline(connection, step, life)?;
        } else {
            self.history.tried(step);
            let committed = match self.kind.form {
                Form::Transaction => self.transaction(connection, step),
                Form::Block => self.block(connection, step),
                Form::BlockInPieces => self.block_in_pieces(connection, step),
                Form::Watched => self.watched(connection, step),
                Form::Script => self.script(connection, step),
                Form::Function => self.function(connection, step),
                Form::Single | Form::Pipeline => self.single(connection, step),
            };
            // Else once more.
            if committed? {
                self.acknowledged(step, self.is_durable(step, life));
                self.next += 1;
            }
        }
        if self.kind.mode == Mode::WaitAof && step.is_multiple_of(NOW_AND_THEN) {
            await_durable(connection)?;
            self.history.promise(self.history.last_acknowledged());
        }
        if self.kind.large {
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Does the reply to this step say that it is durable?
    fn is_durable(&self, step: u64, life: Life<'_>) -> bool {
        match self.kind.mode {
            Mode::Sync => true,
            Mode::Async => false,
            Mode::CommitSync if self.says_sync(step) => true,
            _ => life.always,
        }
    }

    fn says_sync(&self, step: u64) -> bool {
        self.kind.mode == Mode::CommitSync && step.is_multiple_of(NOW_AND_THEN)
    }

    fn acknowledged(&mut self, step: u64, durable: bool) {
        self.history.acknowledged(Instant::now(), step, durable);
        (self.tell)(self.id, step, durable);
    }

    fn state(&self, connection: &mut Connection) -> State {
        let mut state = State::default();
        for key in Key::ALL {
            let name = key.of(&self.id);
            let value = connection.ask(&["GET", &name]);
            if value == "$-1" {
                continue;
            }
            let digits = value.split(':').next().unwrap_or_default();
            let step: u64 = digits.parse().unwrap_or_else(|_| panic!("{name}: {value}"));
            assert!(value == step::value(key, step), "{name}: torn, of {step}");
            let expires = connection.ask(&["PEXPIRETIME", &name]);
            if key == Key::Far {
                let until = step::step_of_expiry(&expires);
                let until = until.unwrap_or_else(|| panic!("{name} of {step}: {expires}"));
                state.0.insert(Key::Until, until);
            } else {
                assert_eq!(expires, ":-1", "{name} of {step}");
            }
            state.0.insert(key, step);
        }
        let temporary = step::temporary(&self.id);
        assert_eq!(connection.ask(&["GET", &temporary]), "$-1", "{temporary}");
        state
    }
}

/// Everything that was committed before this is on the disk then.
fn await_durable(connection: &mut Connection) -> Result<(), Gone> {
    let told = connection.try_ask(&["WAITAOF", "1", "0", "0"]);
    assert_eq!(told.ok_or(Gone)?, "*2");
    assert_eq!(connection.try_line().ok_or(Gone)?, ":1");
    assert_eq!(connection.try_line().ok_or(Gone)?, ":0");
    Ok(())
}

/// Nothing is written: so what is durable now is everything that is there.
pub fn settle_all(server: &Served, clients: &mut [Client]) {
    let settled = await_durable(&mut Connection::open(server.port));
    assert!(settled.is_ok(), "the server is there");
    for client in clients {
        client.history.promise(client.next - 1);
    }
}

/// Looks at the data after a crash: steps are whole and without a hole, what they have seen is
/// there, and so is what was acknowledged, as far as it was promised.
pub fn check(server: &Served, clients: &mut [Client], crash: Crash) -> Lost {
    let mut connection = Connection::open(server.port);
    let mut all = Lost::default();
    for client in &mut *clients {
        let found = client.state(&mut connection);
        let (id, kind) = (client.id, client.kind);
        let writes = |step| writes(step, kind.width(), kind.large);
        let settled = client.history.settle(&found, crash, writes);
        let (last, lost) = settled.unwrap_or_else(|why| panic!("client {id}, {kind:?}: {why}"));
        client.next = last + 1;
        all.steps += lost.steps;
        all.age = all.age.max(lost.age);
    }
    for client in &*clients {
        let seen = connection.ask(&["GET", &requests::seen(client.id)]);
        let seen: u64 = seen.parse().unwrap_or(0);
        let neighbour = &clients[client.neighbour];
        assert!(
            seen < neighbour.next,
            "client {} saw {seen} of {}, which is at {}",
            client.id,
            neighbour.id,
            neighbour.next
        );
    }
    all
}

/// FLUSHALL by a synchronous client. All clients begin anew.
pub fn flush(server: &Served, clients: &mut [Client]) {
    let mut connection = Connection::open(server.port);
    let mode = connection.ask(&["CLIENT", "DURABILITY", "SYNC"]);
    assert_eq!(mode, "+OK");
    assert_eq!(connection.ask(&["FLUSHALL"]), "+OK");
    for client in clients {
        client.begin_anew();
    }
}

/// Not over: work that goes on where no server is needed.
fn goes_on(life: Life<'_>) -> bool {
    !life.over.load(Ordering::Relaxed)
}
