//! INCR, DECR, INCRBY, DECRBY.

use super::transaction::{Kind, atomically};
use super::{Context, Failure, Outcome};
use crate::integer;

pub(super) fn incr(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    add(context, &arguments[0], 1)
}

pub(super) fn decr(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    add(context, &arguments[0], -1)
}

pub(super) fn incrby(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    add(context, &arguments[0], number(&arguments[1])?)
}

pub(super) fn decrby(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let delta = number(&arguments[1])?;
    let delta = delta.checked_neg().ok_or("ERR decrement would overflow")?;
    add(context, &arguments[0], delta)
}

fn number(text: &[u8]) -> Result<i64, Failure> {
    integer::parse(text).ok_or_else(|| "ERR value is not an integer or out of range".into())
}

fn add(context: &mut Context<'_>, key: &[u8], delta: i64) -> Outcome {
    let value = atomically(context.session, Kind::Write, |session| {
        let old = match session.get_for_update(key)? {
            Some(text) => number(&text)?,
            None => 0,
        };
        let new = old
            .checked_add(delta)
            .ok_or("ERR increment or decrement would overflow")?;
        session.set(key, new.to_string().as_bytes())?;
        Ok(new)
    })?;
    context.replies.integer(value);
    Ok(())
}
