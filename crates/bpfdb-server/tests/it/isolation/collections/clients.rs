//! Clients that execute the transactions of a history on collections.

use bpfdb_model::Error;
use bpfdb_tests::server::procedures::parsed;
use bpfdb_tests::server::{Client, Reply, request};
use bpfdb_tests::stress::{End, Ended, Last, Step, Whole, WholeClient};

use super::is_refused;
use super::kept::Kept;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// One command, without a transaction.
    Plain,
    /// MULTI … EXEC, in one message.
    Block,
    /// BEGIN … COMMIT, one command after the other.
    Steps,
    /// The same commands without a transaction around them: which a history must show.
    Pieces,
}

pub(super) struct OfCollections {
    client: Client,
    kept: Kept,
    way: Way,
}

impl OfCollections {
    pub(super) fn new(client: Client, kept: Kept, way: Way) -> Self {
        Self { client, kept, way }
    }

    fn ask(&mut self, command: &[u8]) -> Reply {
        self.client.send(command);
        parsed(&self.client.reply())
    }

    fn say(&mut self, command: &str) -> Result<(), String> {
        match self.client.say(command).as_str() {
            "+OK\r\n" => Ok(()),
            reply => Err(format!("{command}: {reply}")),
        }
    }

    /// The commands of a step: one that reads and one that writes, if it does so.
    fn commands(&self, step: Step) -> Vec<Vec<u8>> {
        let name = step.name();
        let read = step.reads().then(|| self.kept.read(&name));
        let write = (step.write()).map(|(_, element)| self.kept.write(&name, element));
        read.into_iter().chain(write).collect()
    }

    fn all_commands(&self, whole: &Whole) -> Vec<Vec<u8>> {
        let steps = whole.steps.iter();
        steps.flat_map(|&step| self.commands(step)).collect()
    }

    /// What those of the replies say that belong to reads.
    fn seen(&self, whole: &Whole, replies: &[Reply]) -> Result<Ended, String> {
        let (mut seen, mut replies) = (Vec::new(), replies.iter());
        let mut next = || replies.next().ok_or("too few replies");
        for step in &whole.steps {
            if step.reads() {
                seen.push(self.kept.elements(next()?)?);
            }
            if step.write().is_some() {
                next()?;
            }
        }
        Ok(Ended::Committed(seen))
    }

    fn one(&mut self, whole: &Whole) -> Result<Ended, String> {
        match self.way {
            Way::Plain | Way::Pieces => self.commands_alone(whole),
            Way::Block => self.block(whole),
            Way::Steps => self.steps(whole),
        }
    }

    fn commands_alone(&mut self, whole: &Whole) -> Result<Ended, String> {
        let mut replies = Vec::new();
        for command in self.all_commands(whole) {
            let mut reply = self.ask(&command);
            // Nothing of it is done; with other commands before it, it cannot be refused now.
            while self.way == Way::Pieces && is_refused(&reply) {
                reply = self.ask(&command);
            }
            match reply.is_error() {
                true if is_refused(&reply) => return Ok(Ended::Refused),
                true => return Err(format!("the server says {reply}")),
                false => replies.push(reply),
            }
        }
        self.seen(whole, &replies)
    }

    fn block(&mut self, whole: &Whole) -> Result<Ended, String> {
        let commands = self.all_commands(whole);
        let end: &[u8] = match whole.end {
            End::Fail => b"DISCARD",
            End::Commit | End::Detour => b"EXEC",
        };
        let message = [request(&[b"MULTI"]), commands.concat(), request(&[end])];
        self.client.send(&message.concat());
        for _ in 0..=commands.len() {
            let reply = parsed(&self.client.reply());
            if reply.is_error() {
                return Err(format!("the server says {reply}"));
            }
        }
        let reply = parsed(&self.client.reply());
        if is_refused(&reply) {
            return Ok(Ended::Refused);
        }
        let wrong = reply.items.iter().find(|reply| reply.is_error());
        match (whole.end, wrong) {
            (_, Some(wrong)) => Err(format!("the server says {wrong}")),
            (End::Fail, None) if reply.is("OK") => Ok(Ended::RolledBack),
            (End::Commit | End::Detour, None) if !reply.is_error() => {
                self.seen(whole, &reply.items)
            }
            _ => Err(format!("the server says {reply}")),
        }
    }

    fn steps(&mut self, whole: &Whole) -> Result<Ended, String> {
        self.say(match whole.is_snapshot() {
            true => "BEGIN READ ONLY",
            false => "BEGIN",
        })?;
        let mut replies = Vec::new();
        for command in self.all_commands(whole) {
            let reply = self.ask(&command);
            if reply.is_error() {
                self.say("ROLLBACK")?;
                return match is_refused(&reply) {
                    true => Ok(Ended::Refused),
                    false => Err(format!("the server says {reply}")),
                };
            }
            replies.push(reply);
        }
        if whole.end == End::Fail {
            self.say("ROLLBACK")?;
            return Ok(Ended::RolledBack);
        }
        self.say("COMMIT")?;
        self.seen(whole, &replies)
    }
}

impl WholeClient for OfCollections {
    fn fit(&self, whole: &mut Whole) {
        match self.way {
            Way::Block | Way::Steps => return,
            Way::Pieces => {}
            Way::Plain => {
                whole.steps.truncate(1);
                for step in &mut whole.steps {
                    if let (true, Some((key, element))) = (step.reads(), step.write()) {
                        *step = Step::Push(key, element);
                    }
                }
            }
        }
        // Nothing can be taken back.
        whole.end = End::Commit;
    }

    fn execute(&mut self, all: &[Whole]) -> Result<Vec<Ended>, String> {
        all.iter().map(|whole| self.one(whole)).collect()
    }
}

impl Last for OfCollections {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let command = self.kept.read(key);
        let reply = self.ask(&command);
        assert!(!reply.is_error(), "at the end: {reply}");
        let elements = self.kept.elements(&reply);
        Ok(elements.unwrap_or_else(|error| panic!("at the end: {error}")))
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        let reply = self.ask(&request(&[b"DEL", key]));
        assert!(!reply.is_error(), "at the end: {reply}");
        Ok(reply.number() == Some(1))
    }
}
