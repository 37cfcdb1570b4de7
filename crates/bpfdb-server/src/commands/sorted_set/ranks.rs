//! How many members are before one: ZRANK and ZREVRANK.

use bpfdb::ValueType;
use bpfdb_values::sorted_set::SortedSet;

use super::super::collection::load;
use super::super::prelude::*;

/// Key, member.
pub(super) fn reply_rank(
    context: &mut Context<'_>,
    arguments: &[Vec<u8>],
    is_descending: bool,
) -> Outcome {
    let read = load(context.session, &arguments[0], ValueType::SORTED_SET)?;
    let set = read.as_ref().map(|read| SortedSet::read(&read.value));
    let set = set.transpose()?;
    let ranked = set.and_then(|set| {
        let rank = set.rank(&arguments[1])?;
        Some(if is_descending {
            set.len() - 1 - rank
        } else {
            rank
        })
    });
    match ranked {
        Some(rank) => context.replies.integer(rank as i64),
        None => context.replies.null(),
    }
    Ok(())
}
