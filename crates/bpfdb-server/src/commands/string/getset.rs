//! GETSET.

use super::super::atomic::{Kind, atomically};
use super::super::definition::Deprecated;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "getset",
    summary: "Set the string value of a key and return its old value",
    since: "1.0.0",
    deprecated: Some(Deprecated {
        since: "6.2.0",
        replaced_by: "`SET` with the `!GET` argument",
    }),
    group: Group::String,
    complexity: "O(1)",
    arity: 3,
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::String],
    keys: &[Keys::at(1, &["RW", "access", "update"])],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, value) = (&arguments[0], &arguments[1]);
    let old = atomically(context.session, Kind::Write, |session| {
        let old = session.get_for_update(key)?;
        session.set(key, value)?;
        Ok(old)
    })?;
    context.replies.bulk_or_null(old.as_deref());
    Ok(())
}
