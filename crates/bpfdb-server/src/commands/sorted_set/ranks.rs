//! How many members are before one: ZRANK and ZREVRANK.

use bpfdb::ValueType;
use bpfdb_values::sorted_set::SortedSet;

use super::super::collection::Collection;
use super::super::look_up::look_up;
use super::super::prelude::*;

/// Key, member.
pub(super) fn reply_rank(
    context: &mut Context<'_>,
    arguments: &[Vec<u8>],
    is_descending: bool,
) -> Outcome {
    let member = &arguments[1];
    let found = look_up(context, &arguments[0], ValueType::SORTED_SET, |set| {
        Ok(match set {
            Collection::Small(bytes) => {
                let set = SortedSet::read(&bytes)?;
                set.rank(member).map(|rank| (rank as u64, set.len() as u64))
            }
            Collection::Large(mut large) => {
                let rank = large.rank(member)?;
                rank.map(|rank| (rank, large.len()))
            }
        })
    })?;
    match found.flatten() {
        Some((rank, len)) => {
            let ranked = if is_descending { len - 1 - rank } else { rank };
            context.replies.integer(ranked as i64);
        }
        None => context.replies.null(),
    }
    Ok(())
}
