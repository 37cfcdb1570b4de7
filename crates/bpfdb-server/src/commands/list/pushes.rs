//! Elements that are added at an end of a list: LPUSH, RPUSH, LPUSHX, RPUSHX.

use bpfdb::ValueType;
use bpfdb_values::list::End;

use super::super::collection::{Change, Large, change_either};
use super::super::prelude::*;
use super::{large_len, list_of};

/// What becomes of a key that is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    Made,
    Left,
}

/// Key, elements. The reply is the list's new length.
pub(super) fn push(
    context: &mut Context<'_>,
    arguments: &[Vec<u8>],
    end: End,
    absent: Absent,
) -> Outcome {
    let (key, elements) = (&arguments[0], &arguments[1..]);
    let small = |old: Option<Vec<u8>>| {
        if old.is_none() && absent == Absent::Left {
            return Ok((Change::Nothing, 0));
        }
        let list = list_of(old.as_deref())?;
        let new = list.push(end, elements)?;
        Ok((Change::Set(new), list.len() + elements.len()))
    };
    let large = |large: &mut Large<'_>| {
        large.push(end, elements)?;
        Ok(large_len(large))
    };
    let len = change_either(context.session, key, ValueType::LIST, small, large)?;
    context.replies.integer(len as i64);
    Ok(())
}
