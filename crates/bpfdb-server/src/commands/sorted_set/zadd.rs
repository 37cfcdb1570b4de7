//! ZADD.

use super::super::prelude::*;
use super::adding::{add, increments};

pub(crate) static COMMAND: Command = Command {
    name: "zadd",
    summary: "Gives members of a sorted set their scores",
    since: "1.2.0",
    group: Group::SortedSet,
    complexity: "O(members, each the log of the length)",
    arity: -4,
    arguments: "key:key, [condition(NX|XX)@3.0.2], [comparison(GT|LT)@6.2.0], [CH=change@3.0.2], [INCR=increment@3.0.2], score_member{score:double, member}...",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::SortedSet],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Update])],
    batching: Batching::Changes,
    events: Events::By(tell),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    add(context, arguments, false)
}

fn tell(told: &mut Told<'_>) {
    let name = if increments(&told.arguments[1..]) {
        "zincr"
    } else {
        "zadd"
    };
    for change in told.changes {
        told.tell_change(change, name);
    }
}
