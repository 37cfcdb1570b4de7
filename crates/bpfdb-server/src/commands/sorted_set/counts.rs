//! How many members are in a range: ZCOUNT and ZLEXCOUNT.

use bpfdb::ValueType;
use bpfdb_values::sorted_set::{Selection, SortedSet};

use super::super::collection::load;
use super::super::prelude::*;
use super::scores::By;

/// Key, ends.
pub(super) fn reply_count(context: &mut Context<'_>, arguments: &[Vec<u8>], by: By) -> Outcome {
    let selection = Selection::all(by.members(&arguments[1], &arguments[2])?);
    let read = load(context.session, &arguments[0], ValueType::SORTED_SET)?;
    let count = read.map_or(Ok(0), |read| {
        SortedSet::read(&read.value).map(|set| set.select(&selection).len())
    })?;
    context.replies.integer(count as i64);
    Ok(())
}
