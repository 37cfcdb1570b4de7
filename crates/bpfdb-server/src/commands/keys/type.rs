//! TYPE.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "type",
    summary: "Returns the type of a value",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(1)",
    arity: 2,
    arguments: "key:key",
    flags: &[Flag::Readonly, Flag::Fast],
    categories: &[Category::Keyspace],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly])],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (session, key) = (&mut *context.session, &arguments[0]);
    let head = session.tracked(false, |session| session.head(key))?;
    let name = head.map_or("none", |head| head.value_type.name());
    context.replies.simple(name);
    Ok(())
}
