//! Members of a range that are removed: ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX.

use bpfdb::ValueType;
use bpfdb_values::sorted_set::{Selection, SortedSet};

use super::super::collection::{Change, change};
use super::super::prelude::*;
use super::scores::By;

/// Key, ends. The reply is how many there were.
pub(super) fn remove_range(context: &mut Context<'_>, arguments: &[Vec<u8>], by: By) -> Outcome {
    let selection = Selection::all(by.members(&arguments[1], &arguments[2])?);
    let kind = ValueType::SORTED_SET;
    let count = change(context.session, &arguments[0], kind, |old| {
        let Some(old) = old else {
            return Ok((Change::Nothing, 0));
        };
        let set = SortedSet::read(&old)?;
        let places = set.select(&selection);
        let count = places.len();
        if count == 0 {
            return Ok((Change::Nothing, 0));
        }
        Ok((set.without(places)?.into(), count))
    })?;
    context.replies.integer(count as i64);
    Ok(())
}
