//! Clients that hand over whole transactions.

use bpfdb::{Session, Status};
use bpfdb_model::history::encode;
use bpfdb_procedures::inside::{Calls, Failure, Library, ReplyRef};
use bpfdb_tests::stress::{End, Ended, Step, Whole, WholeClient};

use crate::isolation::is_refusal;
use bpfdb_tests::server::procedures::{back_to_kernel, parsed};
use bpfdb_tests::server::{Client, Reply, request};

/// Keys and arguments of the call of histories.lua that does it.
fn call(whole: &Whole) -> (&'static str, Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let keys = whole.steps.iter().map(|step| step.name()).collect();
    if whole.is_snapshot() {
        return ("snapshot", keys, Vec::new());
    }
    let end = match whole.end {
        End::Commit => "1",
        End::Detour => "1.5",
        End::Fail => "fails",
    };
    let words = whole.steps.iter().map(|step| {
        let letter = match step {
            Step::Read(_) => b'r',
            Step::Append(..) => b'a',
            Step::Upgrade(..) => b'u',
            Step::Push(..) => b'p',
            Step::Store(..) => b's',
        };
        let element = step.write().map_or(Vec::new(), |(_, one)| encode(&[one]));
        [&[letter], &element[..]].concat()
    });
    let end = std::iter::once(end.as_bytes().to_vec());
    ("transaction", keys, words.chain(end).collect())
}

/// What a snapshot of histories.lua or stress.lua replies.
pub(crate) fn seen(mut reply: &[u8]) -> Result<Vec<Option<Vec<u8>>>, String> {
    let mut values = Vec::new();
    while !reply.is_empty() {
        let broken = || format!("broken: {}", reply.escape_ascii());
        let end = reply.iter().position(|&byte| byte == b':');
        let (len, rest) = reply.split_at(end.ok_or_else(broken)?);
        let rest = &rest[1..];
        if len == b"-" {
            values.push(None);
            reply = rest;
            continue;
        }
        let len = std::str::from_utf8(len)
            .ok()
            .and_then(|len| len.parse().ok());
        let (value, rest) = rest
            .split_at_checked(len.ok_or_else(broken)?)
            .ok_or_else(broken)?;
        values.push(Some(value.to_vec()));
        reply = rest;
    }
    Ok(values)
}

/// What an error says to a client whose transaction is to end in this way.
fn refused(reply: &Reply, end: End) -> Result<Ended, String> {
    let told = reply.to_string();
    if is_refusal(reply) {
        return Ok(Ended::Refused);
    }
    // In the words of the interpreter, which has run it.
    match end == End::Fail && told.contains("arithmetic") {
        true => Ok(Ended::RolledBack),
        false => Err(format!("the server says {told}")),
    }
}

/// Calls procedures by FCALL and FCALL_RO, some of them in each message.
pub(crate) struct Caller {
    pub(crate) client: Client,
    pub(crate) together: usize,
}

impl WholeClient for Caller {
    fn together(&self) -> usize {
        self.together
    }

    fn execute(&mut self, all: &[Whole]) -> Result<Vec<Ended>, String> {
        let mut message = Vec::new();
        for whole in all {
            let (function, keys, arguments) = call(whole);
            let count = keys.len().to_string();
            let command: &[u8] = match whole.is_snapshot() {
                true => b"FCALL_RO",
                false => b"FCALL",
            };
            let mut words = vec![command, function.as_bytes(), count.as_bytes()];
            words.extend(keys.iter().chain(&arguments).map(Vec::as_slice));
            message.extend(request(&words));
        }
        self.client.send(&message);
        let reply = |whole: &Whole| {
            let reply = parsed(&self.client.reply());
            match reply.is_error() {
                true => refused(&reply, whole.end),
                false => seen(&reply.text).map(Ended::Committed),
            }
        };
        let ended = all.iter().map(reply).collect();
        if all.iter().any(|whole| whole.end != End::Commit) {
            back_to_kernel(&mut self.client);
        }
        ended
    }
}

/// Calls procedures from inside this process, some of them in each system call.
pub(crate) struct Inside {
    calls: Calls,
    session: Session,
    together: usize,
}

impl Inside {
    pub(crate) fn new(library: &Library, session: Session, together: usize) -> Self {
        Self {
            calls: library.calls(),
            session,
            together,
        }
    }
}

impl WholeClient for Inside {
    fn together(&self) -> usize {
        self.together
    }

    fn execute(&mut self, all: &[Whole]) -> Result<Vec<Ended>, String> {
        self.calls.clear();
        for whole in all {
            let (function, keys, arguments) = call(whole);
            let [keys, arguments] = [&keys, &arguments]
                .map(|words| words.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let added = self.calls.add(function, &keys, &arguments);
            added.map_err(|error| error.to_string())?;
        }
        let replies = self.calls.run(&mut self.session);
        let replies = replies.map_err(|error| error.to_string())?;
        let ended = |reply| match reply {
            Ok(ReplyRef::Text(text)) => seen(text).map(Ended::Committed),
            Err(Failure::GivenUp(_)) => Ok(Ended::RolledBack),
            Err(Failure::Engine(Status::Conflict | Status::VersionsFull)) => Ok(Ended::Refused),
            other => Err(format!("{other:?}")),
        };
        replies.map(ended).collect()
    }
}

/// The commands of a step, for a client that is not to read by itself.
fn commands(step: Step) -> Vec<Vec<u8>> {
    let name = step.name();
    let element = step.write().map(|(_, element)| encode(&[element]));
    let mut commands = Vec::new();
    if step.reads() {
        commands.push(request(&[b"GET", &name]));
    }
    if let Some(element) = element {
        let command: &[u8] = match step {
            Step::Store(..) => b"SET",
            _ => b"APPEND",
        };
        commands.push(request(&[command, &name, &element]));
    }
    commands
}

/// The values in the replies to these commands.
fn values<'a>(steps: &[Step], mut replies: impl Iterator<Item = &'a Reply>) -> Ended {
    let mut values = Vec::new();
    for step in steps {
        if step.reads() {
            let reply = replies.next().expect("a reply to GET");
            values.push((!reply.is_nil).then(|| reply.text.clone()));
        }
        if step.write().is_some() {
            replies.next().expect("a reply to a write");
        }
    }
    Ended::Committed(values)
}

/// MULTI … EXEC, in one message.
pub(crate) struct Block(pub(crate) Client);

impl WholeClient for Block {
    fn execute(&mut self, all: &[Whole]) -> Result<Vec<Ended>, String> {
        all.iter().map(|whole| self.one(whole)).collect()
    }
}

impl Block {
    fn one(&mut self, whole: &Whole) -> Result<Ended, String> {
        let commands: Vec<_> = whole
            .steps
            .iter()
            .flat_map(|&step| commands(step))
            .collect();
        let end: &[u8] = match whole.end {
            End::Fail => b"DISCARD",
            End::Commit | End::Detour => b"EXEC",
        };
        let message = [request(&[b"MULTI"]), commands.concat(), request(&[end])];
        self.0.send(&message.concat());
        for _ in 0..=commands.len() {
            let reply = parsed(&self.0.reply());
            if reply.is_error() {
                return Err(format!("the server says {reply}"));
            }
        }
        let reply = parsed(&self.0.reply());
        match whole.end {
            _ if reply.is_error() => refused(&reply, whole.end),
            End::Fail => Ok(Ended::RolledBack),
            End::Commit | End::Detour => Ok(values(&whole.steps, reply.items.iter())),
        }
    }
}

/// BEGIN … COMMIT, one command after the other.
pub(crate) struct Interactive(pub(crate) Client);

impl WholeClient for Interactive {
    fn execute(&mut self, all: &[Whole]) -> Result<Vec<Ended>, String> {
        all.iter().map(|whole| self.one(whole)).collect()
    }
}

impl Interactive {
    fn one(&mut self, whole: &Whole) -> Result<Ended, String> {
        self.say(match whole.is_snapshot() {
            true => "BEGIN READ ONLY",
            false => "BEGIN",
        })?;
        let mut replies = Vec::new();
        for command in whole.steps.iter().flat_map(|&step| commands(step)) {
            self.0.send(&command);
            let reply = parsed(&self.0.reply());
            if reply.is_error() {
                self.say("ROLLBACK")?;
                return refused(&reply, whole.end);
            }
            replies.push(reply);
        }
        if whole.end == End::Fail {
            self.say("ROLLBACK")?;
            return Ok(Ended::RolledBack);
        }
        self.say("COMMIT")?;
        Ok(values(&whole.steps, replies.iter()))
    }

    fn say(&mut self, command: &str) -> Result<(), String> {
        match self.0.say(command).as_str() {
            "+OK\r\n" => Ok(()),
            reply => Err(format!("{command}: {reply}")),
        }
    }
}

/// Commands without a transaction: MGET, and others on one key.
pub(crate) struct Plain(pub(crate) Client);

impl WholeClient for Plain {
    fn fit(&self, whole: &mut Whole) {
        if whole.is_snapshot() {
            return;
        }
        whole.end = End::Commit;
        whole.steps.truncate(1);
        for step in &mut whole.steps {
            if let (true, Some((key, element))) = (step.reads(), step.write()) {
                *step = Step::Push(key, element);
            }
        }
    }

    fn execute(&mut self, all: &[Whole]) -> Result<Vec<Ended>, String> {
        all.iter().map(|whole| self.one(whole)).collect()
    }
}

impl Plain {
    fn one(&mut self, whole: &Whole) -> Result<Ended, String> {
        if !whole.is_snapshot() {
            let message: Vec<_> = whole
                .steps
                .iter()
                .flat_map(|&step| commands(step))
                .collect();
            self.0.send(&message.concat());
            let reply = parsed(&self.0.reply());
            return match reply.is_error() {
                true => refused(&reply, whole.end),
                false => Ok(values(&whole.steps, [reply].iter())),
            };
        }
        let names: Vec<Vec<u8>> = whole.steps.iter().map(|step| step.name()).collect();
        let mut words = vec![&b"MGET"[..]];
        words.extend(names.iter().map(Vec::as_slice));
        let reply = parsed(&self.0.ask(&words));
        match reply.is_error() {
            true => refused(&reply, whole.end),
            false => Ok(values(&whole.steps, reply.items.iter())),
        }
    }
}

/// The same commands as a transaction needs, without one: which a history must show.
pub(crate) struct InPieces(pub(crate) Client);

impl WholeClient for InPieces {
    fn fit(&self, whole: &mut Whole) {
        // Nothing can be taken back.
        whole.end = End::Commit;
    }

    fn execute(&mut self, all: &[Whole]) -> Result<Vec<Ended>, String> {
        all.iter().map(|whole| self.one(whole)).collect()
    }
}

impl InPieces {
    /// Each step is a call of its own.
    fn one(&mut self, whole: &Whole) -> Result<Ended, String> {
        let mut values = Vec::new();
        for &step in &whole.steps {
            let piece = Whole {
                steps: vec![step],
                end: End::Commit,
            };
            let (function, keys, arguments) = call(&piece);
            let mut words = vec![&b"FCALL"[..], function.as_bytes(), b"1"];
            words.extend(keys.iter().chain(&arguments).map(Vec::as_slice));
            values.extend(seen(&self.ask(&words)?.text)?);
        }
        Ok(Ended::Committed(values))
    }

    /// Asks again while another client keeps a lock for longer than the server tries: a processor of a
    /// virtual machine may stand still.
    fn ask(&mut self, words: &[&[u8]]) -> Result<Reply, String> {
        let mut replies = (0..1000).map(|_| parsed(&self.0.ask(words)));
        match replies.find(|reply| !is_refusal(reply)) {
            Some(reply) if !reply.is_error() => Ok(reply),
            other => Err(format!("the server says {other:?}")),
        }
    }
}
