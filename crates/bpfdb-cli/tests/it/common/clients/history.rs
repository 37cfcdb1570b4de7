//! What a client was replied, over all crashes, and what must be there for that.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::step::{PERIOD, State, Write};

/// What was acknowledged longer ago than this is there, also to clients that are not
/// synchronous: the engine stops writers after a second without a flush, which is in the
/// documents, and looks eight times a second.
const EXPOSURE: Duration = Duration::from_millis(1200);

/// A step that was acknowledged.
#[derive(Debug, Clone, Copy)]
struct Told {
    when: Instant,
    step: u64,
    /// Has a reply said that it is durable?
    durable: bool,
}

/// How a server's life ended, and what the next one began with.
#[derive(Debug, Clone, Copy)]
pub struct Crash {
    pub when: Instant,
    pub found: Found,
}

/// What a server begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The data in the kernel: all that was acknowledged.
    Kernel,
    /// The files: so all that is there now is on the disk.
    Files,
    /// One of both, and it is not known which.
    Either,
}

/// What is gone of what was acknowledged: as far as it was not promised.
#[derive(Debug, Default, Clone, Copy)]
pub struct Lost {
    pub steps: u64,
    /// Of the oldest of these.
    pub age: Duration,
}

#[derive(Debug)]
pub struct History {
    /// This step and all before it are there for ever: they were on a disk.
    floor: u64,
    /// After that step.
    state: State,
    /// Since then.
    told: Vec<Told>,
    /// The last step that was sent; if it is known.
    tried: Option<u64>,
    /// Those that changed nothing.
    refused: BTreeSet<u64>,
}

impl History {
    /// Before the first step.
    pub fn new() -> Self {
        Self {
            floor: 0,
            state: State::default(),
            told: Vec::new(),
            tried: Some(0),
            refused: BTreeSet::new(),
        }
    }

    /// Nobody remembers how many steps were sent.
    pub fn forget_tried(&mut self) {
        self.tried = None;
    }

    pub fn tried(&mut self, step: u64) {
        self.tried = Some(step);
    }

    pub fn acknowledged(&mut self, when: Instant, step: u64, durable: bool) {
        self.told.push(Told {
            when,
            step,
            durable,
        });
    }

    /// A reply has shown this step, or said that everything before now is durable.
    pub fn promise(&mut self, step: u64) {
        self.acknowledged(Instant::now(), step, true);
    }

    pub fn last_acknowledged(&self) -> u64 {
        self.told.last().map_or(self.floor, |told| told.step)
    }

    pub fn acknowledgements(&self) -> usize {
        self.told.len()
    }

    pub fn refused(&mut self, step: u64) {
        self.refused.insert(step);
    }

    /// Compares with what a crash has left. The last step that is there, and what is gone of
    /// those after it.
    pub fn settle(
        &mut self,
        found: &State,
        crash: Crash,
        writes: impl Fn(u64) -> Vec<Write>,
    ) -> Result<(u64, Lost), String> {
        let last = self.find(found, &writes).ok_or_else(|| {
            let Self {
                floor, tried, told, ..
            } = self;
            let durable = told.iter().rev().find(|told| told.durable);
            format!(
                "its keys are as after none of the steps {floor} to {tried:?} \
                 ({durable:?}): {found:?}"
            )
        })?;
        let lost = self.lost(last, crash)?;
        let durable = if crash.found == Found::Files {
            last
        } else {
            let old = |told: &Told| crash.when.saturating_duration_since(told.when) >= EXPOSURE;
            let on_disk = self.told.iter().filter(|told| told.durable || old(told));
            on_disk.map(|told| told.step).max().unwrap_or(0)
        };
        self.raise_floor(durable, &writes);
        self.told.clear();
        if last > self.floor {
            // Its exposure begins anew: the log was not written while there was no server.
            self.acknowledged(Instant::now(), last, false);
        }
        self.refused
            .retain(|step| (self.floor..=last).contains(step));
        self.tried = Some(last);
        Ok((last, lost))
    }

    /// The last step after which the keys were so.
    fn find(&self, found: &State, writes: &impl Fn(u64) -> Vec<Write>) -> Option<u64> {
        // Each step but some of a period leaves a trace.
        let guess = || self.floor.max(found.newest()) + 2 * PERIOD;
        let end = self.tried.unwrap_or_else(guess);
        let mut state = self.state.clone();
        let mut last = (state == *found).then_some(self.floor);
        for step in self.floor + 1..=end {
            self.apply(&mut state, step, writes);
            if state == *found {
                last = Some(step);
            }
        }
        last
    }

    fn apply(&self, state: &mut State, step: u64, writes: &impl Fn(u64) -> Vec<Write>) {
        if !self.refused.contains(&step) {
            state.apply(step, &writes(step));
        }
    }

    fn raise_floor(&mut self, step: u64, writes: &impl Fn(u64) -> Vec<Write>) {
        let mut state = std::mem::take(&mut self.state);
        for step in self.floor + 1..=step {
            self.apply(&mut state, step, writes);
        }
        self.state = state;
        self.floor = self.floor.max(step);
    }

    fn lost(&self, last: u64, crash: Crash) -> Result<Lost, String> {
        let mut lost = Lost::default();
        for told in self.told.iter().filter(|told| told.step > last) {
            let age = crash.when.saturating_duration_since(told.when);
            let why = match () {
                () if told.durable => "that was promised",
                () if crash.found == Found::Kernel => "that was in the kernel",
                () if age >= EXPOSURE => "that is old",
                () => {
                    lost.steps += 1;
                    lost.age = lost.age.max(age);
                    continue;
                }
            };
            return Err(format!(
                "a step {why} is gone: {told:?}, {age:?} before the crash; there is {last}"
            ));
        }
        Ok(lost)
    }
}
