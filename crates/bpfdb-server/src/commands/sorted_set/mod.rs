//! Sorted sets.
//!
//! ```text
//! scores.rs       scores and ranges in arguments, entries in replies
//! adding.rs       ZADD, ZINCRBY
//! selections.rs   ZRANGE and its kin
//! counts.rs       ZCOUNT, ZLEXCOUNT
//! ranks.rs        ZRANK, ZREVRANK
//! removals.rs     ZREMRANGEBY…
//! pops.rs         ZPOPMIN, ZPOPMAX, ZMPOP
//! waits.rs        the same for BZPOPMIN and its kin
//! operations.rs   unions, intersections, differences
//! ```

mod adding;
mod bzmpop;
mod bzpopmax;
mod bzpopmin;
mod counts;
mod operations;
mod pops;
mod ranks;
mod removals;
mod scores;
mod selections;
mod waits;
mod zadd;
mod zcard;
mod zcount;
mod zdiff;
mod zdiffstore;
mod zincrby;
mod zinter;
mod zintercard;
mod zinterstore;
mod zlexcount;
mod zmpop;
mod zmscore;
mod zpopmax;
mod zpopmin;
mod zrandmember;
mod zrange;
mod zrangebylex;
mod zrangebyscore;
mod zrangestore;
mod zrank;
mod zrem;
mod zremrangebylex;
mod zremrangebyrank;
mod zremrangebyscore;
mod zrevrange;
mod zrevrangebylex;
mod zrevrangebyscore;
mod zrevrank;
mod zscan;
mod zscore;
mod zunion;
mod zunionstore;

/// ZADD, for places too.
pub(super) use adding::add;

use bpfdb::{Session, ValueType};
use bpfdb_values::sorted_set::score_of;

use super::Failure;
use super::collection::put;
use super::context::Context;
use super::definition::Command;
use super::look_up::find;

pub(super) static COMMANDS: &[&Command] = &[
    &bzmpop::COMMAND,
    &bzpopmax::COMMAND,
    &bzpopmin::COMMAND,
    &zadd::COMMAND,
    &zcard::COMMAND,
    &zcount::COMMAND,
    &zdiff::COMMAND,
    &zdiffstore::COMMAND,
    &zincrby::COMMAND,
    &zinter::COMMAND,
    &zintercard::COMMAND,
    &zinterstore::COMMAND,
    &zlexcount::COMMAND,
    &zmpop::COMMAND,
    &zmscore::COMMAND,
    &zpopmax::COMMAND,
    &zpopmin::COMMAND,
    &zrandmember::COMMAND,
    &zrange::COMMAND,
    &zrangebylex::COMMAND,
    &zrangebyscore::COMMAND,
    &zrangestore::COMMAND,
    &zrank::COMMAND,
    &zrem::COMMAND,
    &zremrangebylex::COMMAND,
    &zremrangebyrank::COMMAND,
    &zremrangebyscore::COMMAND,
    &zrevrange::COMMAND,
    &zrevrangebylex::COMMAND,
    &zrevrangebyscore::COMMAND,
    &zrevrank::COMMAND,
    &zscan::COMMAND,
    &zscore::COMMAND,
    &zunion::COMMAND,
    &zunionstore::COMMAND,
];

/// Gives a key a new sorted set, whatever it has, that does not expire; `None`: the key goes.
fn store(session: &mut Session, key: &[u8], bytes: Option<&[u8]>) -> Result<(), Failure> {
    put(session, key, ValueType::SORTED_SET, bytes, None)
}

/// The scores of members; of a key that is absent there are none.
fn find_scores(
    context: &mut Context<'_>,
    key: &[u8],
    members: &[Vec<u8>],
) -> Result<Vec<Option<f64>>, Failure> {
    let found = find(context, key, ValueType::SORTED_SET, members)?;
    let Some(found) = found else {
        return Ok(vec![None; members.len()]);
    };
    let scores = found.into_iter();
    let scores = scores.map(|value| value.as_deref().map(score_of).transpose());
    Ok(scores.collect::<Result<_, _>>()?)
}
