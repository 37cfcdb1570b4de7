//! The clients that run the transactions of anomalies.rs: as calls of procedures, and step by step.

use bpfdb::{Session, Status};
use bpfdb_procedures::inside::{CallError, Failure, Library, Reply as Own};

use crate::isolation::is_refusal;
use bpfdb_tests::server::procedures::{ask, parsed};
use bpfdb_tests::server::{Client, Reply};

/// What an actor does again and again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    /// Of anomalies.lua.
    pub(crate) function: &'static str,
    pub(crate) keys: &'static [&'static str],
    pub(crate) arguments: &'static [&'static str],
    /// The same, step by step.
    pub(crate) steps: Body,
    /// May it get this?
    pub(crate) is_well: fn(&str) -> bool,
}

/// The steps of a transaction.
pub(crate) trait Steps {
    fn get(&mut self, key: &str) -> Result<Option<String>, Stop>;
    fn set(&mut self, key: &str, value: &str) -> Result<(), Stop>;
    fn delete(&mut self, key: &str) -> Result<(), Stop>;
}

pub(crate) type Stepped = Result<String, Stop>;
pub(crate) type Body = fn(&mut dyn Steps, &Role) -> Stepped;

/// Why a transaction leaves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It wants that itself.
    RollBack,
    Conflict,
    OutOfMemory,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Acted {
    Told(String),
    Stopped(Stop),
}

/// What the calls of one run came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) committed: u64,
    pub(crate) rolled_back: u64,
    pub(crate) conflicts: u64,
    pub(crate) out_of_memory: u64,
}

impl Tally {
    pub(crate) fn note(&mut self, acted: &Acted) {
        let count = match acted {
            Acted::Told(_) => &mut self.committed,
            Acted::Stopped(Stop::RollBack) => &mut self.rolled_back,
            Acted::Stopped(Stop::Conflict) => &mut self.conflicts,
            Acted::Stopped(Stop::OutOfMemory) => &mut self.out_of_memory,
        };
        *count += 1;
    }

    pub(crate) fn add(&mut self, other: Tally) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.conflicts += other.conflicts;
        self.out_of_memory += other.out_of_memory;
    }

    pub(crate) fn calls(&self) -> u64 {
        self.committed + self.rolled_back + self.conflicts + self.out_of_memory
    }
}

/// Plays a role once. What is neither of [`Acted`] is a finding.
pub(crate) trait Actor: Send {
    fn act(&mut self, role: &Role) -> Result<Acted, String>;
}

/// Calls procedures.
pub(crate) trait Calls: Send {
    fn call(&mut self, function: &str, keys: &[&str], arguments: &[&str]) -> Result<Acted, String>;
}

impl<C: Calls> Actor for C {
    fn act(&mut self, role: &Role) -> Result<Acted, String> {
        self.call(role.function, role.keys, role.arguments)
    }
}

/// By FCALL.
pub(crate) struct Called(pub(crate) Client);

impl Calls for Called {
    fn call(&mut self, function: &str, keys: &[&str], arguments: &[&str]) -> Result<Acted, String> {
        let count = keys.len().to_string();
        let mut words = vec!["FCALL", function, &count];
        words.extend(keys.iter().chain(arguments));
        let reply = ask(&mut self.0, &words);
        match reply.is_error() {
            true => stopped(&reply).map(Acted::Stopped),
            false => Ok(Acted::Told(text(&reply.text))),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn stopped(reply: &Reply) -> Result<Stop, String> {
    let told = reply.to_string();
    match is_refusal(reply) {
        true => Ok(Stop::Conflict),
        // In the words of the interpreter, which has run it.
        false if told.contains("arithmetic") => Ok(Stop::RollBack),
        false if told.contains("OOM") => Ok(Stop::OutOfMemory),
        false => Err(format!("the server says {told}")),
    }
}

/// From inside this process.
pub(crate) struct Inside {
    pub(crate) library: Library,
    pub(crate) session: Session,
}

impl Calls for Inside {
    fn call(&mut self, function: &str, keys: &[&str], arguments: &[&str]) -> Result<Acted, String> {
        let [keys, arguments] = [keys, arguments]
            .map(|words| words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        let reply = self
            .library
            .call(&mut self.session, function, &keys, &arguments);
        match reply {
            Ok(Own::Text(told)) => Ok(Acted::Told(text(&told))),
            Err(CallError::Failed(Failure::GivenUp(_))) => Ok(Acted::Stopped(Stop::RollBack)),
            Err(CallError::Failed(Failure::Engine(Status::Conflict | Status::VersionsFull))) => {
                Ok(Acted::Stopped(Stop::Conflict))
            }
            Err(CallError::Failed(Failure::Engine(Status::OutOfMemory))) => {
                Ok(Acted::Stopped(Stop::OutOfMemory))
            }
            other => Err(format!("{other:?}")),
        }
    }
}

/// Step by step, between BEGIN and COMMIT.
pub(crate) struct Stepwise(pub(crate) Client);

impl Stepwise {
    fn say(&mut self, command: &str) -> Result<(), String> {
        match self.0.say(command).as_str() {
            "+OK\r\n" => Ok(()),
            reply => Err(format!("{command}: {reply}")),
        }
    }
}

impl Actor for Stepwise {
    fn act(&mut self, role: &Role) -> Result<Acted, String> {
        self.say("BEGIN")?;
        match (role.steps)(&mut self.0, role) {
            Ok(told) => {
                self.say("COMMIT")?;
                Ok(Acted::Told(told))
            }
            Err(stop) => {
                self.say("ROLLBACK")?;
                Ok(Acted::Stopped(stop))
            }
        }
    }
}

/// The same steps without a transaction around them, which must not get through.
pub(crate) struct InPieces(pub(crate) Client);

impl Actor for InPieces {
    fn act(&mut self, role: &Role) -> Result<Acted, String> {
        match (role.steps)(&mut self.0, role) {
            Ok(told) => Ok(Acted::Told(told)),
            Err(stop) => Ok(Acted::Stopped(stop)),
        }
    }
}

impl Steps for Client {
    fn get(&mut self, key: &str) -> Result<Option<String>, Stop> {
        let reply = step(self, &["GET", key])?;
        Ok((!reply.is_nil).then(|| text(&reply.text)))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Stop> {
        step(self, &["SET", key, value]).map(drop)
    }

    fn delete(&mut self, key: &str) -> Result<(), Stop> {
        step(self, &["DEL", key]).map(drop)
    }
}

fn step(client: &mut Client, words: &[&str]) -> Result<Reply, Stop> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let reply = parsed(&client.ask(&words));
    match reply.is_error() {
        false => Ok(reply),
        true if is_refusal(&reply) => Err(Stop::Conflict),
        true => panic!("{reply}"),
    }
}
