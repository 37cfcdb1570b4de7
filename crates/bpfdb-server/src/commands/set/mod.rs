//! Sets: members without order. A set without members is no value: its key is absent.

mod combined;
mod sadd;
mod scard;
mod sdiff;
mod sdiffstore;
mod sinter;
mod sintercard;
mod sinterstore;
mod sismember;
mod smembers;
mod smismember;
mod smove;
mod spop;
mod srandmember;
mod srem;
mod sscan;
mod sunion;
mod sunionstore;

use bpfdb::{Session, ValueType};
use bpfdb_values::Set;

use super::Failure;
use super::collection::{self, Change, check_len};
use super::definition::Command;

pub(super) static COMMANDS: &[&Command] = &[
    &sadd::COMMAND,
    &scard::COMMAND,
    &sdiff::COMMAND,
    &sdiffstore::COMMAND,
    &sinter::COMMAND,
    &sintercard::COMMAND,
    &sinterstore::COMMAND,
    &sismember::COMMAND,
    &smembers::COMMAND,
    &smismember::COMMAND,
    &smove::COMMAND,
    &spop::COMMAND,
    &srandmember::COMMAND,
    &srem::COMMAND,
    &sscan::COMMAND,
    &sunion::COMMAND,
    &sunionstore::COMMAND,
];

/// Whether a set has become another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changed {
    No,
    Yes,
}

/// Does to a set under an exclusive lock what `work` says. The words are the key and what `work` is given
/// besides the set; an absent one is empty.
///
/// # Errors
/// WRONGTYPE, a set that is too long, and those of `work`: nothing was done.
fn change<T>(
    session: &mut Session,
    words: &[Vec<u8>],
    mut work: impl for<'a> FnMut(&mut Set<'a>, &'a [Vec<u8>]) -> Result<(Changed, T), Failure>,
) -> Result<T, Failure> {
    collection::change(session, &words[0], ValueType::SET, |old| {
        let mut set = old.as_deref().map_or(Ok(Set::default()), Set::read)?;
        let (changed, result) = work(&mut set, &words[1..])?;
        let change = match changed {
            Changed::No => Change::Nothing,
            Changed::Yes if set.is_empty() => Change::Delete,
            Changed::Yes => {
                check_len(set.written_len())?;
                Change::Set(set.write())
            }
        };
        Ok((change, result))
    })
}

/// Gives a key a set, over whatever it has; an empty one deletes it.
///
/// # Errors
/// A set that is too long: nothing was done.
fn store(
    session: &mut Session,
    key: &[u8],
    set: &Set<'_>,
    expires_at: Option<u64>,
) -> Result<(), Failure> {
    if set.is_empty() {
        session.delete(key)?;
        return Ok(());
    }
    check_len(set.written_len())?;
    session.set_typed(key, ValueType::SET, &set.write(), expires_at)?;
    Ok(())
}
