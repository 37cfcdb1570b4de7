//! Commands that wait for elements of a list: BLPOP, BRPOP, BLMPOP, BLMOVE, BRPOPLPUSH.

use std::ops::Range;

use bpfdb::{Session, ValueType};
use bpfdb_values::list::End;

use super::super::atomic::{Kind, atomically};
use super::super::blocking::{Blocking, Wait, seconds_from_now, unless_other_type, wait_for};
use super::super::prelude::*;
use super::pops::{move_element, pop_first};
use crate::protocol::reply::Replies;

/// Takes elements from an end of the first list that has any.
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
        context.replies.array(2);
        context.replies.bulk(&keys[number]);
        match self.count {
            Some(_) => popped.reply(context.replies)?,
            None => popped.reply_alone(context.replies)?,
        }
        Ok(true)
    }
}

/// Takes an element from an end of one list and adds it at an end of another one: the first two
/// arguments.
#[derive(Debug)]
struct Move {
    ends: [End; 2],
}

impl Blocking for Move {
    fn attempt(
        &mut self,
        context: &mut Context<'_>,
        arguments: &[Vec<u8>],
        ready: Option<usize>,
    ) -> Result<bool, Failure> {
        let (source, target) = (&arguments[0], &arguments[1]);
        let moved = atomically(context.session, Kind::Write, |session| {
            // That the target has another type is an error at any time.
            if ready.is_some() && !is_list(session, source)? {
                return Ok(None);
            }
            move_element(session, [source, target], self.ends)
        })?;
        let Some(element) = moved else {
            return Ok(false);
        };
        context.replies.bulk(&element);
        Ok(true)
    }

    /// As that to LMOVE; when its time is over it is an array, in Redis too.
    fn reply_nothing(&self, replies: &mut Replies) {
        replies.null();
    }
}

/// Locks the key.
fn is_list(session: &mut Session, key: &[u8]) -> Result<bool, Failure> {
    let head = session.head_for_update(key)?;
    Ok(head.is_some_and(|head| head.value_type == ValueType::LIST))
}

/// BLPOP, BRPOP: keys, and the seconds to wait.
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

/// BLMPOP: the keys are those behind the seconds to wait and their own number.
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
        takes: Some(ValueType::LIST),
    };
    wait_for(context, arguments, wait, pop)
}

/// BLMOVE, BRPOPLPUSH: source, target; the seconds to wait come last.
pub(super) fn move_between(
    context: &mut Context<'_>,
    arguments: &[Vec<u8>],
    ends: [End; 2],
) -> Outcome {
    let wait = Wait {
        until: seconds_from_now(&arguments[arguments.len() - 1])?,
        keys: vec![arguments[0].clone()],
        takes: Some(ValueType::LIST),
    };
    wait_for(context, arguments, wait, Move { ends })
}
