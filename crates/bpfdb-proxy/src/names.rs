//! Names of hosts are looked up again and again: one may move to another address, as that of a primary does in a
//! failover, or that of a container. A lookup may take seconds: so a thread does it.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::settings::{Addresses, Settings, look_up};

/// Lookups are so far apart at least.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// What is to be looked up, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    names: BTreeSet<String>,
    known: Duration,
    unknown: Duration,
}

impl Question {
    pub(crate) fn of(settings: &Settings) -> Self {
        let databases = settings.databases.values();
        let hosts = databases.flat_map(|database| &database.hosts);
        let names = hosts.filter(|host| host.has_name());
        Self {
            names: names.map(|host| host.name.clone()).collect(),
            known: settings.dns_max_ttl,
            unknown: settings.dns_nxdomain_ttl,
        }
    }

    fn answer(&self) -> Addresses {
        let names = self.names.iter();
        names.map(|name| (name.clone(), look_up(name))).collect()
    }

    fn pause(&self, last: &Addresses) -> Duration {
        let is_unknown = |name: &String| last.get(name).is_none_or(Vec::is_empty);
        let pause = match self.names.iter().any(is_unknown) {
            true => self.known.min(self.unknown),
            false => self.known,
        };
        pause.max(PAUSE_MIN)
    }
}

/// The thread; it ends when this is dropped. There is none before a name is asked for.
#[derive(Debug)]
pub(crate) struct Names {
    /// Has the event loop look at the answers.
    waker: UnixStream,
    wakes_by: u8,
    last: Option<Question>,
    thread: Option<(Sender<Question>, Receiver<Addresses>)>,
}

impl Names {
    /// `wakes_by`: what is written to `waker` when there is an answer.
    pub(crate) fn new(waker: UnixStream, wakes_by: u8) -> Self {
        Self {
            waker,
            wakes_by,
            last: None,
            thread: None,
        }
    }

    /// From now on this is looked up.
    ///
    /// # Errors
    /// There can be no thread.
    pub(crate) fn ask(&mut self, question: Question) -> io::Result<()> {
        if self.last.as_ref() == Some(&question)
            || self.thread.is_none() && question.names.is_empty()
        {
            return Ok(());
        }
        let (questions, _) = match &self.thread {
            Some(thread) => thread,
            None => self
                .thread
                .insert(start(self.waker.try_clone()?, self.wakes_by)?),
        };
        // It ends with this only.
        let _ = questions.send(question.clone());
        self.last = Some(question);
        Ok(())
    }

    /// The newest answer, if there is one that was not seen.
    pub(crate) fn answer(&self) -> Option<Addresses> {
        let (_, answers) = self.thread.as_ref()?;
        answers.try_iter().last()
    }
}

fn start(waker: UnixStream, wakes_by: u8) -> io::Result<(Sender<Question>, Receiver<Addresses>)> {
    let (questions, asked) = channel();
    let (found, answers) = channel();
    let tell = move |answer| found.send(answer).is_ok() && (&waker).write(&[wakes_by]).is_ok();
    thread::Builder::new()
        .name("names".into())
        .spawn(move || look_up_again(&asked, tell))?;
    Ok((questions, answers))
}

/// `tell`: is the answer still wanted? Only one that differs from the last one is told.
fn look_up_again(asked: &Receiver<Question>, tell: impl Fn(Addresses) -> bool) {
    let Ok(mut question) = asked.recv() else {
        return;
    };
    let mut told = Addresses::new();
    loop {
        let now = question.answer();
        if now != told {
            if !tell(now.clone()) {
                return;
            }
            told = now;
        }
        match asked.recv_timeout(question.pause(&told)) {
            // The settings may say again what an earlier answer has changed.
            Ok(next) => (question, told) = (next, Addresses::new()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn question(host: &str) -> Question {
        let mut settings = Settings::default();
        let database = format!("host={host}").parse().expect("a database");
        settings.databases.insert("one".into(), database);
        Question::of(&settings)
    }

    #[test]
    fn names_are_asked_for_and_addresses_are_not() {
        let asked = question("localhost,127.0.0.1,/run,::1");
        assert_eq!(asked.names, BTreeSet::from(["localhost".to_owned()]));
        let found = asked.answer();
        assert!(found["localhost"].iter().all(|ip| ip.is_loopback()));
        assert_eq!(asked.pause(&found), Duration::from_secs(15));
        let unknown = Question {
            unknown: Duration::ZERO,
            ..asked
        };
        assert_eq!(unknown.pause(&Addresses::new()), PAUSE_MIN);
    }

    #[test]
    fn a_thread_answers() {
        let (here, mut there) = UnixStream::pair().expect("a pair");
        let mut names = Names::new(here, b'!');
        names.ask(question("127.0.0.1")).expect("asked");
        assert!(names.thread.is_none() && names.answer().is_none());
        names.ask(question("localhost")).expect("asked");
        let mut woken = [0];
        there.read_exact(&mut woken).expect("an answer");
        assert_eq!(woken, [b'!']);
        let answer = names.answer().expect("an answer");
        assert!(!answer["localhost"].is_empty());
    }
}
