//! A call on its way, on a stack of its own.
//!
//! ```text
//!            begin              command, slice over                 end
//!  (Begun) ────────► (Running) ◄───────────────────► (Left)   ──────────► (Ended)
//!                        │        resume with answer    │
//!                        └──────────────────────────────┴── dropped: stopped, and run to its end
//! ```

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::{Duration, Instant};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::json;
use crate::random::Random;
use crate::reply::Reply;

/// What a call wants, or has come to.
#[derive(Debug)]
pub enum Step {
    /// Execute this command, and answer with its reply. `resp3`: the script asked for replies of
    /// RESP3.
    Command {
        words: Vec<Vec<u8>>,
        resp3: bool,
    },
    /// It has run for its time slice: others are to be served.
    SliceOver,
    /// It returned this.
    Done(Reply),
    Failed(Failure),
}

/// What a call is resumed with.
#[derive(Debug)]
pub enum Answer {
    /// Begin, or go on after [`Step::SliceOver`].
    GoOn,
    /// What the command replied, in RESP. Bytes that are no reply are an error of the script.
    Reply(Vec<u8>),
}

/// Why a call has no reply. All that it did is to be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The script raised an error: its text, as Redis words it.
    Raised(Vec<u8>),
    /// It was stopped from outside.
    Stopped,
    /// It took more memory than it may.
    Memory,
}

type Body = Coroutine<Answer, Step, Step, DefaultStack>;

/// Bytes of a call's stack; what is not used takes no memory. The most that Lua's functions of C
/// and ours take: 200 nested `string.gsub`, then nested values of 1,000 levels.
const STACK_BYTES: usize = 16 << 20;

thread_local! {
    /// The stack of a call that has ended, for the next one: to map one, and to fill its first pages with zeros, takes
    /// longer than a short script.
    static SPARE: RefCell<Option<DefaultStack>> = const { RefCell::new(None) };
}

/// A stack for a call.
fn stack() -> DefaultStack {
    let spare = SPARE.with_borrow_mut(Option::take);
    spare.unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("there are addresses for it"))
}

/// Lines of redis.log() that wait; then the call is left, so that they are written.
const LINES_MAX: usize = 32;

/// What the functions that a script calls share with the code that resumes it.
#[derive(Default)]
pub(crate) struct Link {
    /// While a call runs: its stack's way back.
    yielder: Cell<Option<NonNull<Yielder<Answer, Step>>>>,
    /// Is it to end?
    stops: Cell<bool>,
    slice_end: Cell<Option<Instant>>,
    /// When the clock was looked at last, since the call was resumed.
    looked: Cell<Option<Instant>>,
    /// Until then each instruction is followed by a look.
    careful_until: Cell<Option<Instant>>,
    /// RESP3, as the script asked for.
    pub(crate) resp3: Cell<bool>,
    /// See [`Call::passes_error_on`].
    pub(crate) passes_error_on: Cell<bool>,
    /// Goes on from call to call and from state to state, as in Redis.
    random: Rc<Random>,
    /// From a seed to the end of the call: so it draws none of the numbers of calls beside it.
    seeded: Cell<Option<u64>>,
    pub(crate) json: Rc<Cell<json::Config>>,
    /// Lines of redis.log() that are not taken yet.
    lines: RefCell<Vec<(u8, Vec<u8>)>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("stops", &self.stops)
            .field("resp3", &self.resp3)
            .finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) fn new(random: &Rc<Random>) -> Self {
        Self {
            random: Rc::clone(random),
            ..Self::default()
        }
    }

    /// The next random number, of 31 bits.
    pub(crate) fn draw(&self) -> u32 {
        let Some(state) = self.seeded.get() else {
            return self.random.next();
        };
        let own = Random::default();
        own.go_on_from(state);
        let number = own.next();
        self.seeded.set(Some(own.state()));
        number
    }

    pub(crate) fn seed(&self, seed: u32) {
        let own = Random::default();
        own.seed(seed);
        self.seeded.set(Some(own.state()));
    }

    /// Calls to come go on from where this one has come to.
    fn end_numbers(&self) {
        if let Some(state) = self.seeded.take() {
            self.random.go_on_from(state);
        }
    }

    /// A line of redis.log().
    pub(crate) fn log(&self, level: u8, text: Vec<u8>) {
        self.lines.borrow_mut().push((level, text));
        if self.lines.borrow().len() >= LINES_MAX && self.is_running() {
            self.leave(Step::SliceOver);
        }
    }

    pub(crate) fn stops(&self) -> bool {
        self.stops.get()
    }

    /// Is a call on its way that can ask for commands?
    pub(crate) fn is_running(&self) -> bool {
        self.yielder.get().is_some()
    }

    /// Leaves the call until it is resumed. Not outside of one.
    pub(crate) fn leave(&self, step: Step) -> Answer {
        let yielder = self.yielder.get().expect("within a call");
        // SAFETY: set by the body of the coroutine that runs now, on whose stack it lives, and
        // taken away at its end.
        unsafe { yielder.as_ref() }.suspend(step)
    }

    /// For whatever may take long: leaves the call if its slice is over; true: it is to end.
    pub(crate) fn look(&self) -> bool {
        self.look_timing().stops
    }

    /// The same, and what it says of the next look.
    pub(crate) fn look_timing(&self) -> Look {
        if self.stops() || !self.is_running() {
            return Look {
                stops: self.stops(),
                since: Duration::ZERO,
                is_careful: false,
            };
        }
        let now = Instant::now();
        let last = self.looked.replace(Some(now)).unwrap_or(now);
        let since = now.saturating_duration_since(last);
        if since > TOO_LATE {
            self.careful_until.set(now.checked_add(100 * since));
        }
        if self.slice_end.get().is_some_and(|end| now >= end) {
            self.leave(Step::SliceOver);
        }
        Look {
            stops: self.stops(),
            since,
            is_careful: self.careful_until.get().is_some_and(|until| now < until),
        }
    }
}

/// A look that comes so long after the one before has found instructions that take as long: a
/// comparison of strings of zeros takes 4 ms for each million, and dozens of them fit between two looks.
/// From then on there is a look after each, for a hundred times as long: a script that asks for it is slowed
/// down.
const TOO_LATE: Duration = Duration::from_millis(50);

/// What a look at the clock has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// The call is to end.
    pub(crate) stops: bool,
    /// How long ago the clock was looked at before.
    pub(crate) since: Duration,
    /// One instruction may take long.
    pub(crate) is_careful: bool,
}

/// A call of a script or a function. Dropping it ends it.
pub struct Call {
    /// `None`: its stack was given back, because it is being dropped.
    body: Option<Body>,
    link: Rc<Link>,
    slice: Duration,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

impl Call {
    /// `run` is executed on the call's own stack, from the first [`Call::resume`] on.
    pub(crate) fn new(
        link: Rc<Link>,
        slice: Duration,
        run: impl FnOnce() -> Result<Reply, Failure> + 'static,
    ) -> Self {
        link.stops.set(false);
        link.resp3.set(false);
        link.passes_error_on.set(false);
        link.json.set(json::Config::default());
        link.lines.take();
        let inner = Rc::clone(&link);
        let body = Coroutine::with_stack(stack(), move |yielder, _| {
            inner.yielder.set(Some(NonNull::from(yielder)));
            let outcome = run();
            inner.end_numbers();
            inner.yielder.set(None);
            match outcome {
                Ok(reply) => Step::Done(reply),
                Err(failure) => Step::Failed(failure),
            }
        });
        Self {
            body: Some(body),
            link,
            slice,
        }
    }

    /// Runs it until it wants something, or to its end. Not after that.
    pub fn resume(&mut self, answer: Answer) -> Step {
        let now = Instant::now();
        self.link.slice_end.set(Some(now + self.slice));
        self.link.looked.set(Some(now));
        let body = self.body.as_mut().expect("there until it is dropped");
        match body.resume(answer) {
            CoroutineResult::Yield(step) | CoroutineResult::Return(step) => step,
        }
    }

    /// Is the error that it ended with, raised or returned, one that a command replied to it?
    pub fn passes_error_on(&self) -> bool {
        self.link.passes_error_on.get()
    }

    /// It is to end: the next [`Call::resume`] comes to [`Failure::Stopped`], soon.
    pub fn stop(&self) {
        self.link.stops.set(true);
    }

    pub fn has_ended(&self) -> bool {
        self.body.as_ref().is_none_or(Coroutine::done)
    }

    fn has_begun(&self) -> bool {
        self.body.as_ref().is_some_and(Coroutine::started)
    }

    /// What the script had logged since this was called last: levels, from 0 (debug) to 3
    /// (warning), and texts. To be called after each [`Call::resume`]: else they are kept.
    pub fn take_log(&self) -> Vec<(u8, Vec<u8>)> {
        self.link.lines.take()
    }
}

impl Drop for Call {
    /// What is on its stack is given back by its own end only.
    fn drop(&mut self) {
        self.stop();
        while !self.has_ended() && self.has_begun() {
            self.resume(Answer::GoOn);
        }
        if let Some(body) = self.body.take_if(|body| body.done()) {
            SPARE.set(Some(body.into_stack()));
        }
    }
}
