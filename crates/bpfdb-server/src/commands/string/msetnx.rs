//! MSETNX: all or nothing, and only if none is there.

use bpfdb::{Session, Status};

use super::super::atomic::{Kind, atomically, has_failed, is_open};
use super::super::in_slices::{InSlices, Work};
use super::super::prelude::*;
use super::super::table::wrong_arity;
use super::super::time_slice::TimeSlice;

/// Pairs of a request that is executed at once, with more words than that in slices.
const PAIRS: usize = 256;
/// Pairs between two looks at the clock.
const PAIRS_AT_ONCE: usize = 32;

pub(crate) static COMMAND: Command = Command {
    name: "msetnx",
    summary: "Sets several keys all at once, if none of them has a value",
    since: "1.0.1",
    group: Group::String,
    complexity: "O(keys and bytes written)",
    arity: -3,
    arguments: "key_value{key:key, value}...",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::String],
    tips: &["request_policy:multi_shard", "response_policy:agg_min"],
    keys: &[Keys::at(1, &[KeyFlag::Overwrite, KeyFlag::Insert])
        .last(-1)
        .step(2)],
    batching: Batching::Reads,
    events: Events::Named("set"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, pairs: &[Vec<u8>]) -> Outcome {
    if !pairs.len().is_multiple_of(2) {
        return Err(wrong_arity("msetnx"));
    }
    if pairs.len() > 2 * PAIRS {
        let work = Setting::new(is_open(context.session));
        let work = InSlices::new(context.session, work);
        context.go_on_with(work);
        return Ok(());
    }
    let done = atomically(context.session, Kind::Repeatable, |session| {
        if !are_absent(session, pairs)? {
            return Ok(false);
        }
        set_all(session, pairs)?;
        Ok(true)
    })?;
    context.replies.integer(done.into());
    Ok(())
}

/// Locks the keys, too, so that they stay so.
fn are_absent(session: &mut Session, pairs: &[Vec<u8>]) -> Result<bool, Failure> {
    for pair in pairs.chunks(2) {
        if session.head_for_update(&pair[0])?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// They were absent. If one finds no memory as yet, the others are absent again, since the
/// command may be tried again in a transaction of the client's, which stays open.
fn set_all(session: &mut Session, pairs: &[Vec<u8>]) -> Outcome {
    for (done, pair) in pairs.chunks(2).enumerate() {
        if let Err(status) = session.set(&pair[0], &pair[1]) {
            if status == Status::MemoryPending && !has_failed(session) {
                for pair in pairs.chunks(2).take(done) {
                    session.delete(&pair[0])?;
                }
            }
            return Err(status.into());
        }
    }
    Ok(())
}

/// Many pairs, in slices.
#[derive(Debug)]
struct Setting {
    of_client: bool,
    /// The pair whose key is looked at next; all of them: none has a value.
    looked_at: usize,
    /// The pair that is set next.
    set: usize,
    has_value: bool,
}

impl Setting {
    /// `of_client`: it is a part of a transaction of the client's.
    fn new(of_client: bool) -> Self {
        Self {
            of_client,
            looked_at: 0,
            set: 0,
            has_value: false,
        }
    }
}

/// Some of the words, from this pair on.
fn some(words: &[Vec<u8>], from: usize) -> &[Vec<u8>] {
    let words = &words[2 * from..];
    &words[..words.len().min(2 * PAIRS_AT_ONCE)]
}

impl Work for Setting {
    const GOES_ON: bool = true;

    fn writes(&self) -> bool {
        true
    }

    fn advance(
        &mut self,
        session: &mut Session,
        words: &[Vec<u8>],
        slice: TimeSlice,
    ) -> Result<bool, Failure> {
        let pairs = words.len() / 2;
        while !self.has_value && self.set < pairs {
            if slice.is_over() {
                return Ok(false);
            }
            if self.looked_at < pairs {
                let some = some(words, self.looked_at);
                self.has_value = !are_absent(session, some)?;
                self.looked_at += some.len() / 2;
            } else {
                let some = some(words, self.set);
                set_all(session, some)?;
                self.set += some.len() / 2;
            }
        }
        Ok(true)
    }

    fn restart(&mut self) {
        // What was set in the client's transaction is there: it is known that it was absent, and it is set again.
        let is_known = self.of_client && self.set > 0;
        self.set = 0;
        if !is_known {
            *self = Self::new(self.of_client);
        }
    }

    fn reply(&mut self, context: &mut Context<'_>) {
        context.replies.integer((!self.has_value).into());
    }
}
