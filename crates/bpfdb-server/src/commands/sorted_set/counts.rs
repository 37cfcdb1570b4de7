//! How many members are in a range: ZCOUNT and ZLEXCOUNT.

use bpfdb::ValueType;
use bpfdb_values::sorted_set::{Selection, SortedSet};

use super::super::collection::Collection;
use super::super::look_up::look_up;
use super::super::prelude::*;
use super::scores::By;

/// Key, ends.
pub(super) fn reply_count(context: &mut Context<'_>, arguments: &[Vec<u8>], by: By) -> Outcome {
    let selection = Selection::all(by.members(&arguments[1], &arguments[2])?);
    let count = look_up(context, &arguments[0], ValueType::SORTED_SET, |set| {
        Ok(match set {
            Collection::Small(bytes) => SortedSet::read(&bytes)?.select(&selection).len() as u64,
            Collection::Large(mut large) => {
                let numbers = large.select(&selection)?;
                numbers.end - numbers.start
            }
        })
    })?;
    context.replies.integer(count.unwrap_or(0) as i64);
    Ok(())
}
