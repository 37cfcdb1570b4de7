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
use super::collection::{Change, Large, change_either, check_len, put};
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

/// Members of a set that is changed.
#[derive(Debug)]
enum Members<'f, 'a, 's> {
    Small(&'f mut Set<'a>),
    Large(&'f mut Large<'s>),
}

impl<'a> Members<'_, 'a, '_> {
    /// Whether the member is new.
    fn add(&mut self, member: &'a [u8]) -> Result<bool, Failure> {
        match self {
            Self::Small(set) => Ok(set.add(member)),
            // What is there stays as it is: nothing is written.
            Self::Large(large) => Ok(!large.contains(member)? && large.insert(member, &[])?),
        }
    }

    /// Whether there was such a member.
    fn remove(&mut self, member: &[u8]) -> Result<bool, Failure> {
        match self {
            Self::Small(set) => Ok(set.remove(member)),
            Self::Large(large) => large.remove(member),
        }
    }
}

/// Does to a set under an exclusive lock what `work` says. The words are the key and what `work` is given
/// besides the set; an absent one is empty.
///
/// # Errors
/// WRONGTYPE, a set that is too long, and those of `work`: nothing was done.
fn change<T>(
    session: &mut Session,
    words: &[Vec<u8>],
    work: impl for<'a> Fn(&mut Members<'_, 'a, '_>, &'a [Vec<u8>]) -> Result<(Changed, T), Failure>,
) -> Result<T, Failure> {
    let small = |old: Option<Vec<u8>>| {
        let mut set = old.as_deref().map_or(Ok(Set::default()), Set::read)?;
        let (changed, result) = work(&mut Members::Small(&mut set), &words[1..])?;
        Ok((becomes(&set, changed)?, result))
    };
    let large = |large: &mut Large<'_>| {
        let (_, result) = work(&mut Members::Large(large), &words[1..])?;
        Ok(result)
    };
    change_either(session, &words[0], ValueType::SET, small, large)
}

/// What becomes of the key of a set.
fn becomes(set: &Set<'_>, changed: Changed) -> Result<Change, Failure> {
    Ok(match changed {
        Changed::No => Change::Nothing,
        Changed::Yes if set.is_empty() => Change::Delete,
        Changed::Yes => {
            check_len(set.written_len())?;
            Change::Set(set.write())
        }
    })
}

/// Gives a key a set, over whatever it has, in a transaction; an empty one deletes it.
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
    put(session, key, ValueType::SET, Some(&set.write()), expires_at)
}
