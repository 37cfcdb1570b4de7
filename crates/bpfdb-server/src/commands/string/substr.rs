//! SUBSTR: what GETRANGE was called once.

use super::super::definition::Deprecated;
use super::super::prelude::*;
use super::getrange;

pub(crate) static COMMAND: Command = Command {
    name: "substr",
    summary: "Get a substring of the string stored at a key",
    since: "1.0.0",
    deprecated: Some(Deprecated {
        since: "2.0.0",
        replaced_by: "`GETRANGE`",
    }),
    group: Group::String,
    complexity: "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.",
    arity: 4,
    flags: &[Flag::Readonly],
    categories: &[Category::String],
    keys: &[Keys::at(1, &["RO", "access"])],
    run: getrange::run,
    ..Command::BASE
};
