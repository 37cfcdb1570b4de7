//! RESTORE-ASKING: RESTORE, as it is sent within a cluster.

use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "restore-asking",
    summary: "Makes a value from what DUMP wrote, as RESTORE does",
    since: "3.0.0",
    group: Group::Server,
    complexity: "O(length of the payload)",
    arity: -4,
    arguments: "key:key, ttl:integer, serialized-value, [REPLACE@3.0.0], [ABSTTL@5.0.0], [IDLETIME seconds:integer@5.0.0], [FREQ frequency:integer@5.0.0]",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Asking],
    categories: &[Category::Keyspace, Category::Dangerous],
    keys: &[Keys::at(1, &[KeyFlag::Overwrite, KeyFlag::Update])],
    differences: "As RESTORE.",
    events: Events::By(super::restore::tell),
    run: super::restore::run,
    ..Command::BASE
};
