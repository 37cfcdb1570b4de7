//! DUMP.

use bpfdb::{Head, Session, Status, ValueType};
use bpfdb_values::big::head::is_head;
use bpfdb_values::run::Malformed;

use super::super::collection::load_whole;
use super::super::prelude::*;
use crate::values::dump;

pub(crate) static COMMAND: Command = Command {
    name: "dump",
    summary: "Writes a value in the form that RESTORE reads",
    since: "2.6.0",
    group: Group::Generic,
    complexity: "O(length of the value)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    differences: "Values are not compressed.",
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let payload = payload(context.session, &arguments[0])?;
    context.replies.bulk_or_null(payload.as_deref());
    Ok(())
}

fn payload(session: &mut Session, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    match session.head(key)? {
        None => Ok(None),
        Some(Head {
            value_type,
            value: Some(value),
            ..
        }) if !is_head(&value) || value_type == ValueType::STRING => {
            encode(value_type, &value).map(Some)
        }
        Some(_) => large_payload(session, key),
    }
}

/// Of a large value, or of a large collection: type and bytes are those of one moment.
fn large_payload(session: &mut Session, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    let found = load_whole(session, key)?;
    found
        .map(|(kind, entry)| encode(kind, &entry.value))
        .transpose()
}

/// A run that is damaged was written by another program: the engine has it as it was given.
fn encode(kind: ValueType, value: &[u8]) -> Result<Vec<u8>, Failure> {
    let status = |why| match why {
        Malformed::TYPE => Status::WrongType,
        _ => Status::Corrupt,
    };
    dump::encode_typed(kind, value).map_err(|why| status(why).into())
}
