//! What waits for a keeper, and in what state its table is.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::long::Long;
use super::question::{Answer, AnsweredBy, Ended, Question, Ticket};
use crate::protocol::reply::Replies;

/// Look-ups that are made together: as many as there are chains.
const TOGETHER: usize = 64;

/// A table that is open.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) id: u64,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    /// When it was made, milliseconds of UNIX time.
    pub(crate) time: u64,
    pub(crate) is_kernel: bool,
    /// Why the kernel does not read it, if it was to.
    pub(crate) why: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Phase {
    Opening,
    Open(Facts),
    /// It could not be opened, or its thread has ended.
    Ended,
}

/// What a keeper has to do next.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) gets: Vec<(Ticket, Vec<u8>)>,
    /// One slice of this one.
    pub(super) long: Option<Long>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Why it is not open: whoever asks before that is known here is told, too.
    why: Option<Vec<u8>>,
    /// Those who wait for its being open.
    openers: Vec<Ticket>,
    gets: VecDeque<(Ticket, Vec<u8>)>,
    long: VecDeque<Long>,
    /// Nobody asks any more.
    is_closed: bool,
    /// What was asked is not answered, either.
    is_abandoned: bool,
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    work: Condvar,
    ended: Arc<Ended>,
}

impl Queue {
    pub(super) fn new(ended: &Arc<Ended>) -> Self {
        Self {
            state: Mutex::new(State {
                phase: Phase::Opening,
                why: None,
                openers: Vec::new(),
                gets: VecDeque::new(),
                long: VecDeque::new(),
                is_closed: false,
                is_abandoned: false,
            }),
            work: Condvar::new(),
            ended: Arc::clone(ended),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn phase(&self) -> Phase {
        self.state().phase.clone()
    }

    // ---- The server's thread ---------------------------------------------------------

    pub(super) fn ask(&self, ticket: Ticket, question: Question) {
        let mut state = self.state();
        if matches!(state.phase, Phase::Ended) {
            let why = state.why.clone();
            drop(state);
            // Without a reason the ticket says that it is closed.
            if let Some(why) = why {
                ticket.end(Err(why));
            }
            return;
        }
        match question {
            Question::Open if matches!(state.phase, Phase::Open(_)) => {
                drop(state);
                say_open(ticket);
                return;
            }
            Question::Open => state.openers.push(ticket),
            Question::Get { key } => state.gets.push_back((ticket, key)),
            Question::Range { from, to, limit } => {
                state.long.push_back(Long::range(ticket, &from, &to, limit));
            }
            Question::Aggregate {
                from,
                to,
                what,
                field,
            } => (state.long).push_back(Long::aggregate(ticket, &from, &to, what, field)),
        }
        drop(state);
        self.work.notify_one();
    }

    /// The thread ends when what was asked is answered.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.work.notify_one();
    }

    /// The thread ends as soon as it can.
    pub(super) fn abandon(&self) {
        self.state().is_abandoned = true;
        self.work.notify_one();
    }

    // ---- The keeper's ----------------------------------------------------------------

    pub(super) fn is_abandoned(&self) -> bool {
        self.state().is_abandoned
    }

    /// It is open from now on.
    pub(super) fn set_open(&self, facts: Facts) {
        let mut state = self.state();
        state.phase = Phase::Open(facts);
        let openers = std::mem::take(&mut state.openers);
        drop(state);
        // Whoever has asked for it may be gone: it is open all the same.
        self.ended.ring();
        openers.into_iter().for_each(say_open);
    }

    /// The kernel does not read it any more.
    pub(super) fn set_by_process(&self, why: &str) {
        if let Phase::Open(facts) = &mut self.state().phase {
            facts.is_kernel = false;
            facts.why = Some(why.into());
        }
    }

    /// Nothing is answered any more; `why`: what those are told who wait.
    pub(super) fn end(&self, why: Option<&[u8]>) {
        let mut state = self.state();
        state.phase = Phase::Ended;
        if let Some(why) = why {
            state.why = Some(why.to_vec());
        }
        let openers = std::mem::take(&mut state.openers);
        let gets = std::mem::take(&mut state.gets);
        let long = std::mem::take(&mut state.long);
        drop(state);
        self.ended.ring();
        let Some(why) = why else {
            return;
        };
        let gets = gets.into_iter().map(|(ticket, _)| ticket);
        let long = long.into_iter().map(Long::into_ticket);
        let all = openers.into_iter().chain(gets).chain(long);
        all.for_each(|ticket| ticket.end(Err(why.to_vec())));
    }

    /// Waits for work; `None`: there will be none.
    pub(super) fn next(&self) -> Option<Work> {
        let mut state = self.state();
        loop {
            if state.is_abandoned {
                return None;
            }
            if !state.gets.is_empty() || !state.long.is_empty() {
                let some = state.gets.len().min(TOGETHER);
                return Some(Work {
                    gets: state.gets.drain(..some).collect(),
                    long: state.long.pop_front(),
                });
            }
            if state.is_closed {
                return None;
            }
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A long question that is not answered yet has its turn again: what keeps entries is the next one, an aggregate
    /// comes after the others.
    pub(super) fn put_back(&self, long: Long) {
        let mut state = self.state();
        match long {
            Long::Range(_) => state.long.push_front(long),
            Long::Aggregate(_) => state.long.push_back(long),
        }
    }
}

fn say_open(ticket: Ticket) {
    let mut replies = Replies::new(ticket.protocol());
    replies.ok();
    ticket.end(Ok(Answer {
        reply: replies.take(),
        by: AnsweredBy::Nobody,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::bell::Bell;
    use crate::protocol::reply::Protocol;
    use crate::tables::question::{Pending, What};

    /// A queue, and what was asked there.
    struct Asked {
        queue: Queue,
        ended: Arc<Ended>,
    }

    impl Asked {
        fn new() -> Self {
            let ended = Arc::new(Ended::new(&Bell::new().expect("a bell")));
            let queue = Queue::new(&ended);
            Self { queue, ended }
        }

        fn ask(&self, session: u32, question: Question) -> Pending {
            let (ticket, pending) = Ticket::new(session, Protocol::Resp2, &self.ended);
            self.queue.ask(ticket, question);
            pending
        }

        fn get(&self, session: u32) -> Pending {
            self.ask(session, Question::Get { key: vec![1] })
        }

        fn range(&self, session: u32) -> Pending {
            let (from, to, limit) = (Vec::new(), Vec::new(), None);
            self.ask(session, Question::Range { from, to, limit })
        }

        fn aggregate(&self, session: u32) -> Pending {
            let question = Question::Aggregate {
                from: Vec::new(),
                to: Vec::new(),
                what: What::Count,
                field: None,
            };
            self.ask(session, question)
        }

        /// The long question that is the next one.
        fn slice(&self) -> Option<Long> {
            self.queue.next().expect("work").long
        }
    }

    fn end(long: Option<Long>) {
        let ticket = long.expect("a long question").into_ticket();
        ticket.end(Err(b"x".to_vec()));
    }

    #[test]
    fn aggregates_take_turns_and_a_range_is_finished() {
        let asked = Asked::new();
        let (first, range, second) = (asked.aggregate(1), asked.range(2), asked.aggregate(3));
        asked.queue.put_back(asked.slice().expect("the first"));
        // Behind the others.
        asked.queue.put_back(asked.slice().expect("the range"));
        end(asked.slice());
        assert!(range.take().is_some());
        end(asked.slice());
        assert!(second.take().is_some() && first.take().is_none());
        end(asked.slice());
        assert!(first.take().is_some());
        assert_eq!(asked.ended.take(), [2, 3, 1]);
    }

    #[test]
    fn look_ups_do_not_wait_for_long_questions() {
        let asked = Asked::new();
        let _long = asked.aggregate(1);
        let gets: Vec<Pending> = (0..100).map(|session| asked.get(session)).collect();
        let work = asked.queue.next().expect("work");
        assert_eq!((work.gets.len(), work.long.is_some()), (TOGETHER, true));
        let rest = asked.queue.next().expect("work");
        assert_eq!(
            (rest.gets.len(), rest.long.is_some()),
            (gets.len() - TOGETHER, false)
        );
    }

    #[test]
    fn what_nobody_waits_for_is_not_wanted_and_nobody_is_told() {
        let asked = Asked::new();
        let kept = asked.get(1);
        drop(asked.get(2));
        let work = asked.queue.next().expect("work");
        let wanted: Vec<bool> = work
            .gets
            .iter()
            .map(|(ticket, _)| ticket.is_wanted())
            .collect();
        assert_eq!(wanted, [true, false]);
        drop(work);
        // A thread that has failed has answered so.
        assert!(matches!(kept.take(), Some(Err(_))));
        assert_eq!(asked.ended.take(), [1]);
    }

    #[test]
    fn a_table_that_is_closed_answers_what_was_asked_before() {
        let asked = Asked::new();
        let (_get, _long) = (asked.get(1), asked.aggregate(2));
        asked.queue.close();
        let Work { gets, long } = asked.queue.next().expect("work");
        assert_eq!(gets.len(), 1);
        // The first slice of it.
        asked.queue.put_back(long.expect("the aggregate"));
        end(asked.slice());
        assert!(asked.queue.next().is_none());
        asked.queue.end(None);
        assert!(matches!(asked.get(3).take(), Some(Err(_))), "it is closed");
    }

    #[test]
    fn who_waits_for_a_table_that_is_not_opened_is_told_why() {
        let asked = Asked::new();
        let (get, opener) = (asked.get(1), asked.ask(2, Question::Open));
        asked.queue.abandon();
        assert!(asked.queue.next().is_none());
        asked.queue.end(Some(b"ERR why"));
        for pending in [get, opener] {
            assert!(matches!(pending.take(), Some(Err(why)) if why == b"ERR why"));
        }
        // The thread was faster than who has had it started.
        asked.queue.end(None);
        let late = asked.ask(3, Question::Open);
        assert!(matches!(late.take(), Some(Err(why)) if why == b"ERR why"));
    }

    #[test]
    fn who_waits_for_a_table_is_told_when_it_is_open() {
        let asked = Asked::new();
        let before = asked.ask(1, Question::Open);
        assert!(before.take().is_none());
        assert!(!asked.ended.has_rung());
        asked.queue.set_open(Facts {
            id: 1,
            entries: 0,
            bytes: 0,
            time: 0,
            is_kernel: true,
            why: None,
        });
        assert!(asked.ended.has_rung());
        asked.queue.set_by_process("why");
        let Phase::Open(facts) = asked.queue.phase() else {
            panic!("it is open");
        };
        assert!(!facts.is_kernel && facts.why.as_deref() == Some("why"));
        for pending in [before, asked.ask(2, Question::Open)] {
            assert!(matches!(pending.take(), Some(Ok(answer)) if answer.reply == b"+OK\r\n"));
        }
    }
}
