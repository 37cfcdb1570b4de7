//! Members of a range that are removed: ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX.

use bpfdb::ValueType;
use bpfdb_values::sorted_set::{Selection, SortedSet};

use super::super::collection::{Change, Large, change_either};
use super::super::prelude::*;
use super::scores::By;

/// Key, ends. The reply is how many there were.
pub(super) fn remove_range(context: &mut Context<'_>, arguments: &[Vec<u8>], by: By) -> Outcome {
    let selection = Selection::all(by.members(&arguments[1], &arguments[2])?);
    let small = |old: Option<Vec<u8>>| {
        let Some(old) = old else {
            return Ok((Change::Nothing, 0));
        };
        let set = SortedSet::read(&old)?;
        let places = set.select(&selection);
        let count = places.len() as u64;
        if count == 0 {
            return Ok((Change::Nothing, 0));
        }
        Ok((set.without(places)?.into(), count))
    };
    let large = |large: &mut Large<'_>| {
        let numbers = large.select(&selection)?;
        let count = numbers.end - numbers.start;
        if count == large.len() {
            large.clear()?;
        } else if count > 0 {
            large.take_members(numbers)?;
        }
        Ok(count)
    };
    let kind = ValueType::SORTED_SET;
    let count = change_either(context.session, &arguments[0], kind, small, large)?;
    context.replies.integer(count as i64);
    Ok(())
}
