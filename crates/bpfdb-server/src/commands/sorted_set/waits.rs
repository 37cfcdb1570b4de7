//! Commands that wait for members of a sorted set: BZPOPMIN, BZPOPMAX, BZMPOP.

use std::ops::Range;

use bpfdb::ValueType;

use super::super::atomic::{Kind, atomically};
use super::super::blocking::{Blocking, Wait, seconds_from_now, unless_other_type, wait_for};
use super::super::prelude::*;
use super::pops::{End, pop_first};
use super::scores::Form;

/// Takes members from an end of the first sorted set that has any.
#[derive(Debug)]
struct Pop {
    /// Which of the arguments are keys.
    keys: Range<usize>,
    end: End,
    /// `None`: one, which is replied without an array of its own.
    count: Option<usize>,
}

impl Blocking for Pop {
    fn attempt(
        &mut self,
        context: &mut Context<'_>,
        arguments: &[Vec<u8>],
        ready: Option<usize>,
    ) -> Result<bool, Failure> {
        let all = &arguments[self.keys.clone()];
        let keys = ready.map_or(all, |number| &all[number..=number]);
        let mut popped = atomically(context.session, Kind::Write, |session| {
            pop_first(session, keys, self.end, self.count.unwrap_or(1))
        });
        if ready.is_some() {
            popped = unless_other_type(popped);
        }
        let Some((number, popped)) = popped? else {
            return Ok(false);
        };
        context
            .replies
            .array(if self.count.is_some() { 2 } else { 3 });
        context.replies.bulk(&keys[number]);
        match self.count {
            Some(_) => popped.reply(context.replies, Form::Pairs)?,
            None => popped.reply_alone(context.replies)?,
        }
        Ok(true)
    }
}

/// BZPOPMIN, BZPOPMAX: keys, and the seconds to wait.
pub(super) fn pop(context: &mut Context<'_>, arguments: &[Vec<u8>], end: End) -> Outcome {
    let keys = 0..arguments.len() - 1;
    pop_from(
        context,
        arguments,
        &arguments[keys.end],
        Pop {
            keys,
            end,
            count: None,
        },
    )
}

/// BZMPOP: the keys are those behind the seconds to wait and their own number.
pub(super) fn pop_many(
    context: &mut Context<'_>,
    arguments: &[Vec<u8>],
    keys: usize,
    end: End,
    count: usize,
) -> Outcome {
    let pop = Pop {
        keys: 2..2 + keys,
        end,
        count: Some(count),
    };
    pop_from(context, arguments, &arguments[0], pop)
}

fn pop_from(context: &mut Context<'_>, arguments: &[Vec<u8>], timeout: &[u8], pop: Pop) -> Outcome {
    let wait = Wait {
        until: seconds_from_now(timeout)?,
        keys: arguments[pop.keys.clone()].to_vec(),
        takes: Some(ValueType::SORTED_SET),
    };
    wait_for(context, arguments, wait, pop)
}
