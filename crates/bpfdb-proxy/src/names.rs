//! Names of hosts are looked up again and again: one may move to another address, as that of a primary does in a
//! failover, or that of a container. A lookup may take seconds: so a thread does it.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
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
        Self {
            names: settings.names().into_keys().collect(),
            known: settings.dns_max_ttl,
            unknown: settings.dns_nxdomain_ttl,
        }
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
    woken: UnixStream,
    waker: UnixStream,
    thread: Option<(Sender<Question>, Receiver<Addresses>)>,
}

impl Names {
    /// # Errors
    /// There are no descriptors left.
    pub(crate) fn new() -> io::Result<Self> {
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        Ok(Self {
            woken,
            waker,
            thread: None,
        })
    }

    /// Readable when there is an answer.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// From now on this is looked up, for the first time at once.
    ///
    /// # Errors
    /// There can be no thread.
    pub(crate) fn ask(&mut self, question: Question) -> io::Result<()> {
        if self.thread.is_none() && question.names.is_empty() {
            return Ok(());
        }
        let (questions, _) = match &self.thread {
            Some(thread) => thread,
            None => self.thread.insert(start(self.waker.try_clone()?)?),
        };
        // It ends with this only.
        let _ = questions.send(question);
        Ok(())
    }

    /// What was found since the last time.
    pub(crate) fn answers(&self) -> Addresses {
        let mut seen = [0; 64];
        while (&self.woken).read(&mut seen).is_ok_and(|read| read > 0) {}
        let answers = self
            .thread
            .iter()
            .flat_map(|(_, answers)| answers.try_iter());
        answers.flatten().collect()
    }
}

fn start(waker: UnixStream) -> io::Result<(Sender<Question>, Receiver<Addresses>)> {
    let (questions, asked) = channel();
    let (found, answers) = channel();
    let tell = move |answer| found.send(answer).is_ok() && (&waker).write(b"!").is_ok();
    thread::Builder::new()
        .name("names".into())
        .spawn(move || look_up_again(&asked, look_up, tell))?;
    Ok((questions, answers))
}

/// `tell`: is the answer, of one name, still wanted? One as before is told, too: the settings may have been read again
/// meanwhile.
fn look_up_again(
    asked: &Receiver<Question>,
    look_up: impl Fn(&str) -> Vec<SocketAddr>,
    tell: impl Fn(Addresses) -> bool,
) {
    let Ok(mut question) = asked.recv() else {
        return;
    };
    let mut last = Addresses::new();
    loop {
        // Names without an answer may take long: they hold up no others.
        let mut names: Vec<&String> = question.names.iter().collect();
        names.sort_by_key(|name| last.get(*name).is_some_and(Vec::is_empty));
        for name in names {
            let found = look_up(name);
            last.insert(name.clone(), found.clone());
            if !tell(Addresses::from([(name.clone(), found)])) {
                return;
            }
        }
        match asked.recv_timeout(question.pause(&last)) {
            Ok(next) => question = next,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
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
        let found = Addresses::from([("localhost".to_owned(), look_up("localhost"))]);
        assert!(found["localhost"].iter().all(|at| at.ip().is_loopback()));
        assert_eq!(asked.pause(&found), Duration::from_secs(15));
        let unknown = Question {
            unknown: Duration::ZERO,
            ..asked
        };
        assert_eq!(unknown.pause(&Addresses::new()), PAUSE_MIN);
    }

    #[test]
    fn a_thread_answers() {
        let mut names = Names::new().expect("descriptors");
        names.ask(question("127.0.0.1")).expect("asked");
        assert!(names.thread.is_none() && names.answers().is_empty());
        names.ask(question("localhost")).expect("asked");
        let mut found = Addresses::new();
        while found.is_empty() {
            thread::sleep(Duration::from_millis(1));
            found = names.answers();
        }
        assert!(!found["localhost"].is_empty());
    }

    /// The first one of a round had no answer in the round before.
    #[test]
    fn a_name_that_nobody_answers_holds_up_no_other() {
        let (questions, asked) = channel();
        let (told, order) = channel();
        let asked_for = Question {
            names: ["a", "b"].map(str::to_owned).into(),
            known: Duration::ZERO,
            unknown: Duration::ZERO,
        };
        questions.send(asked_for).expect("it is awaited");
        let look_up = |name: &str| match name {
            "a" => Vec::new(),
            _ => vec![([192, 0, 2, 1], 0).into()],
        };
        let thread = thread::spawn(move || {
            look_up_again(&asked, look_up, |answer| told.send(answer).is_ok());
        });
        let next = || {
            let answer = order.recv().expect("an answer");
            answer.into_keys().next().expect("a name")
        };
        let names: Vec<String> = (0..4).map(|_| next()).collect();
        assert_eq!(names, ["a", "b", "b", "a"]);
        drop(questions);
        thread.join().expect("it ends with those who ask");
    }
}
