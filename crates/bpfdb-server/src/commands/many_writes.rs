//! Writes of many keys, all at one moment, in slices: a job for commands that write.
//!
//! ```text
//!          step               step                  step
//!   begin, keys, suspend │ keys, suspend │ … │ keys, commit, reply
//!                        └── others are served ──┘
//! ```
//!
//! In a transaction of the client's the keys are a part of it, and this neither commits nor
//! rolls back.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use bpfdb::{Session, Status};

use super::atomic::{Kind, atomically, is_open};
use super::context::{Context, Failure, Outcome};
use super::job::{Job, Progress};
use super::time_slice::TimeSlice;
use super::transaction::Attempts;

/// Keys that are written at once; more of them are written in slices.
const KEYS: usize = 256;
/// Keys between two looks at the clock.
const KEYS_AT_ONCE: usize = 32;

/// What a command does to its keys.
pub(super) trait Writer: Debug + Default + 'static {
    /// Words of the request for one key: it, and its value perhaps.
    const WORDS: usize;
    /// To one key; keys come in the order of the request. Done again to all of them, from the first one
    /// on, it does the same.
    fn write(&mut self, session: &mut Session, words: &[Vec<u8>]) -> Outcome;
    /// Does it free memory? Then it is done without a transaction, key by key, should there be no
    /// memory for the locks of one.
    const FREES: bool = false;
    /// All were written.
    fn reply(&self, context: &mut Context<'_>);
}

/// Writes the keys: at once, if they are few.
pub(super) fn write_many<W: Writer>(context: &mut Context<'_>, words: &[Vec<u8>]) -> Outcome {
    if words.len() / W::WORDS > KEYS {
        context.go_on_with(Writing::<W>::new(!is_open(context.session)));
        return Ok(());
    }
    let writer = atomically(context.session, Kind::Repeatable, |session| {
        let mut writer = W::default();
        for words in words.chunks(W::WORDS) {
            writer.write(session, words)?;
        }
        Ok(writer)
    });
    match writer {
        Err(Failure::Engine(Status::OutOfMemory)) if W::FREES && !is_open(context.session) => {
            context.go_on_with(Writing::<W>::key_by_key());
        }
        writer => writer?.reply(context),
    }
    Ok(())
}

#[derive(Debug)]
struct Writing<W> {
    writer: W,
    /// The next key.
    next: usize,
    /// Is the transaction its own?
    own: bool,
    /// Each key in a transaction of its own, which takes no memory for locks.
    single: bool,
    /// Has this attempt begun?
    begun: bool,
    /// Is COMMIT what comes next, or what has failed?
    committing: bool,
    /// The time that this attempt has taken.
    spent: Duration,
    attempts: Attempts,
}

impl<W: Writer> Job for Writing<W> {
    fn step(&mut self, context: &mut Context<'_>, words: &[Vec<u8>]) -> Result<Progress, Failure> {
        if self.own && !self.begun && self.attempts.wait(context, true) {
            return Ok(Progress::More);
        }
        let begun = Instant::now();
        let outcome = self.advance(context, words);
        self.spent += begun.elapsed();
        let failure = match outcome {
            Ok(progress) => return Ok(progress),
            Err(failure) => failure,
        };
        // A COMMIT that has failed has rolled back.
        if self.own && !std::mem::take(&mut self.committing) {
            context.session.rollback()?;
        }
        self.begin_anew(context, failure)
    }

    fn has_begun(&self) -> bool {
        self.begun
    }

    fn keeps_steps(&self) -> bool {
        self.single
    }
}

impl<W: Writer> Writing<W> {
    fn new(own: bool) -> Self {
        Self {
            writer: W::default(),
            next: 0,
            own,
            single: false,
            begun: false,
            committing: false,
            spent: Duration::ZERO,
            attempts: Attempts::default(),
        }
    }

    fn key_by_key() -> Self {
        Self {
            single: true,
            ..Self::new(false)
        }
    }

    /// Writes keys for as long as a step may take; at the end of them, commits.
    fn advance(
        &mut self,
        context: &mut Context<'_>,
        words: &[Vec<u8>],
    ) -> Result<Progress, Failure> {
        if self.own && self.begun {
            context.session.touch();
            context.session.resume();
        } else if self.own {
            context.session.begin_deferred()?;
        }
        self.begun = true;
        let slice = TimeSlice::begin();
        while !self.is_done(words) {
            if slice.is_over() {
                if self.own {
                    self.attempts.pause(context, true)?;
                }
                return Ok(Progress::More);
            }
            self.write_some(context.session, words)?;
        }
        if self.own {
            self.committing = true;
            context.session.commit()?;
        }
        self.attempts.end();
        self.writer.reply(context);
        Ok(Progress::Done)
    }

    fn is_done(&self, words: &[Vec<u8>]) -> bool {
        self.next * W::WORDS >= words.len()
    }

    fn write_some(&mut self, session: &mut Session, words: &[Vec<u8>]) -> Outcome {
        let left = words[self.next * W::WORDS..].chunks(W::WORDS);
        for words in left.take(KEYS_AT_ONCE) {
            self.writer.write(session, words)?;
            self.next += 1;
        }
        Ok(())
    }

    /// After an Error: attempts again, from the beginning, if that may help.
    fn begin_anew(
        &mut self,
        context: &mut Context<'_>,
        failure: Failure,
    ) -> Result<Progress, Failure> {
        let is_busy = matches!(failure, Failure::Engine(Status::SessionBusy));
        if self.single || (!self.own && is_busy) {
            // What is done stays done, and the next attempt goes on behind it. A session that is
            // busy has done nothing, and its transaction has not failed.
            return Err(failure);
        }
        self.begun = false;
        self.next = 0;
        self.writer = W::default();
        let spent = std::mem::take(&mut self.spent);
        match failure {
            Failure::Engine(Status::OutOfMemory) if self.own && W::FREES => {
                self.attempts.end();
                *self = Self::key_by_key();
                Ok(Progress::More)
            }
            Failure::Engine(status) if self.own && self.attempts.again(context, status, spent) => {
                Ok(Progress::More)
            }
            failure => Err(failure),
        }
    }
}
