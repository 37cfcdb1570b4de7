//! Hashes: values by field. A hash without fields is no value: its key is absent.

mod hdel;
mod hexists;
mod hget;
mod hgetall;
mod hincrby;
mod hincrbyfloat;
mod hkeys;
mod hlen;
mod hmget;
mod hmset;
mod hrandfield;
mod hscan;
mod hset;
mod hsetnx;
mod hstrlen;
mod hvals;

use bpfdb::{Session, ValueType};
use bpfdb_values::Hash;

use super::Failure;
use super::collection::{self, Change, check_len};
use super::definition::Command;

pub(super) static COMMANDS: &[&Command] = &[
    &hdel::COMMAND,
    &hexists::COMMAND,
    &hget::COMMAND,
    &hgetall::COMMAND,
    &hincrby::COMMAND,
    &hincrbyfloat::COMMAND,
    &hkeys::COMMAND,
    &hlen::COMMAND,
    &hmget::COMMAND,
    &hmset::COMMAND,
    &hrandfield::COMMAND,
    &hscan::COMMAND,
    &hset::COMMAND,
    &hsetnx::COMMAND,
    &hstrlen::COMMAND,
    &hvals::COMMAND,
];

/// Whether a hash has become another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changed {
    No,
    Yes,
}

/// Does to a hash under an exclusive lock what `work` says. The words are the key and what `work` is given
/// besides the hash; an absent one is empty.
///
/// # Errors
/// WRONGTYPE, a hash that is too long, and those of `work`: nothing was done.
fn change<T>(
    session: &mut Session,
    words: &[Vec<u8>],
    mut work: impl for<'a> FnMut(&mut Hash<'a>, &'a [Vec<u8>]) -> Result<(Changed, T), Failure>,
) -> Result<T, Failure> {
    collection::change(session, &words[0], ValueType::HASH, |old| {
        let mut hash = old.as_deref().map_or(Ok(Hash::default()), Hash::read)?;
        let (changed, result) = work(&mut hash, &words[1..])?;
        let change = match changed {
            Changed::No => Change::Nothing,
            Changed::Yes if hash.is_empty() => Change::Delete,
            Changed::Yes => {
                check_len(hash.written_len())?;
                Change::Set(hash.write())
            }
        };
        Ok((change, result))
    })
}
