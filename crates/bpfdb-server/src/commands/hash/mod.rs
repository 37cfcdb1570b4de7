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

use std::borrow::Cow;

use bpfdb::{Session, ValueType};
use bpfdb_values::Hash;

use super::Failure;
use super::collection::{Change, Large, change_either, check_len};
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

/// Fields of a hash that is changed.
#[derive(Debug)]
enum Fields<'f, 'a, 's> {
    Small(&'f mut Hash<'a>),
    Large(&'f mut Large<'s>),
}

impl<'a> Fields<'_, 'a, '_> {
    /// The value of a field.
    fn get(&mut self, field: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        match self {
            Self::Small(hash) => Ok(hash.get(field).map(<[u8]>::to_vec)),
            Self::Large(large) => large.find(field),
        }
    }

    fn contains(&mut self, field: &[u8]) -> Result<bool, Failure> {
        match self {
            Self::Small(hash) => Ok(hash.get(field).is_some()),
            Self::Large(large) => large.contains(field),
        }
    }

    /// Gives a field a value: whether the field is new.
    fn set(&mut self, field: &'a [u8], value: impl Into<Cow<'a, [u8]>>) -> Result<bool, Failure> {
        match self {
            Self::Small(hash) => Ok(hash.set(field, value)),
            Self::Large(large) => large.insert(field, &value.into()),
        }
    }

    /// Whether there was such a field.
    fn remove(&mut self, field: &[u8]) -> Result<bool, Failure> {
        match self {
            Self::Small(hash) => Ok(hash.remove(field)),
            Self::Large(large) => large.remove(field),
        }
    }
}

/// Does to a hash under an exclusive lock what `work` says. The words are the key and what `work` is given
/// besides the hash; an absent one is empty.
///
/// # Errors
/// WRONGTYPE, a hash that is too long, and those of `work`: nothing was done.
fn change<T>(
    session: &mut Session,
    words: &[Vec<u8>],
    work: impl for<'a> Fn(&mut Fields<'_, 'a, '_>, &'a [Vec<u8>]) -> Result<(Changed, T), Failure>,
) -> Result<T, Failure> {
    let small = |old: Option<Vec<u8>>| {
        let mut hash = old.as_deref().map_or(Ok(Hash::default()), Hash::read)?;
        let (changed, result) = work(&mut Fields::Small(&mut hash), &words[1..])?;
        let change = match changed {
            Changed::No => Change::Nothing,
            Changed::Yes if hash.is_empty() => Change::Delete,
            Changed::Yes => {
                check_len(hash.written_len())?;
                Change::Set(hash.write())
            }
        };
        Ok((change, result))
    };
    let large = |large: &mut Large<'_>| {
        let (_, result) = work(&mut Fields::Large(large), &words[1..])?;
        Ok(result)
    };
    change_either(session, &words[0], ValueType::HASH, small, large)
}
