//! Look-ups in collections that stand behind each other in a pipeline, together: what they miss comes in one call of the
//! engine, for all of them ([`PageCache`]).
//!
//! ```text
//!  entries   0    1    2    3   …
//!  pass 1    found     missed, missed …           what comes behind the first that misses is tried all the
//!  fetch     ──────────────────────────          same: what it misses comes with the rest
//!  pass 2              found, found …
//! ```
//!
//! All entries that have found something have found it at the moment of the last fetch; if a head was written since the
//! fetch before, all are executed again.
//!
//! [`PageCache`]: crate::instance::page_cache::PageCache

use std::time::Instant;

use super::{Batch, Executed};
use crate::commands::context::{Context, Failure};
use crate::commands::look_up::ATTEMPTS;
use crate::commands::time_slice::TimeSlice;

/// Entries of the batch that have found something, from the first on.
#[derive(Debug, Default)]
struct Finished {
    executed: Executed,
    /// Of those that asked: had their keys values?
    found: u64,
    missed: u64,
}

impl Batch {
    pub(super) fn look_up(
        &self,
        context: &mut Context<'_>,
        slice: TimeSlice,
    ) -> Result<Executed, Failure> {
        let begun = Instant::now();
        context.instance.page_cache.gather();
        let outcome = self.passes(context, slice);
        let reads = context.instance.page_cache.end();
        let statistics = &context.instance.statistics;
        // The engine has counted reads of pages, and one of each key.
        statistics.subtract(reads);
        let finished = outcome?;
        statistics.got_many(finished.found, finished.missed);
        let mut executed = finished.executed;
        executed.share(begun.elapsed());
        Ok(executed)
    }

    fn passes(&self, context: &mut Context<'_>, slice: TimeSlice) -> Result<Finished, Failure> {
        let start = context.replies.len();
        let mut finished = Finished::default();
        for _ in 0..ATTEMPTS {
            let is_complete = self.pass(context, slice, &mut finished)?;
            let cache = &mut context.instance.page_cache;
            if is_complete && cache.is_current() {
                return Ok(finished);
            }
            if cache.wants_much(self.entries.len()) {
                break;
            }
            let is_unchanged = cache.fetch(context.session)?;
            if is_complete && is_unchanged {
                return Ok(finished);
            }
            if !is_unchanged {
                context.replies.truncate(start);
                finished = Finished::default();
            }
            // The rest has its turn later.
            if !finished.executed.times.is_empty() && slice.is_over() {
                return Ok(finished);
            }
        }
        Err(Failure::NotFetched)
    }

    /// Goes on with the first entry that is not finished: is nothing missed by those that are to be executed now? Only that
    /// one is executed in any case, the others as long as the slice lasts.
    fn pass(
        &self,
        context: &mut Context<'_>,
        slice: TimeSlice,
        finished: &mut Finished,
    ) -> Result<bool, Failure> {
        let mut begun = Instant::now();
        let mut is_complete = true;
        let first = finished.executed.times.len();
        for (number, entry) in self.entries.iter().enumerate().skip(first) {
            let start = context.replies.len();
            let outcome = entry.run(context);
            let found = context.instance.page_cache.take_found();
            let failure = match outcome {
                Ok(_) => None,
                Err(Failure::Text(text)) => Some(text),
                Err(Failure::NotFetched) => {
                    is_complete = false;
                    None
                }
                Err(failure) => return Err(failure),
            };
            let ended = Instant::now();
            if !is_complete {
                context.replies.truncate(start);
                let cache = &context.instance.page_cache;
                let wants_much = cache.wants_much(self.entries.len());
                if wants_much || !slice.has_room_at(ended, start) {
                    break;
                }
                continue;
            }
            if let Some(text) = failure {
                context.replies.truncate(start);
                context.replies.error(&text);
                finished.executed.failures.push((number, text));
            }
            finished.found += u64::from(found == Some(true));
            finished.missed += u64::from(found == Some(false));
            finished.executed.times.push(ended - begun);
            begun = ended;
            if !slice.has_room_at(ended, context.replies.len()) {
                break;
            }
        }
        Ok(is_complete)
    }
}
