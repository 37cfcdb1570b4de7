//! SORT.

use bpfdb::Change;

use super::super::definition::OfOption;
use super::super::prelude::*;
use super::sorting::{BY_OR_GET, sort, target_of};
use crate::settings::EventClass;

/// Of Redis.
const NOTES: &str = "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array";

pub(crate) static COMMAND: Command = Command {
    name: "sort",
    summary: "Sorts the elements of a list, a set or a sorted set",
    since: "1.0.0",
    group: Group::Generic,
    complexity: "O(n log n) for n elements, and a look-up for each pattern and element",
    arity: -2,
    arguments: "key:key, [BY pattern:pattern#1], [LIMIT offset_count{offset:integer, count:integer}], [GET pattern:pattern#1]...+, [order(ASC|DESC)], [ALPHA=sorting], [STORE destination:key#2]",
    flags: &[Flag::Write, Flag::DenyOom, Flag::MovableKeys],
    categories: &[
        Category::Set,
        Category::SortedSet,
        Category::List,
        Category::Dangerous,
    ],
    keys: &[
        Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access]),
        BY_OR_GET,
        Keys::of_option(
            OfOption::Unknown(target_of),
            &[KeyFlag::Overwrite, KeyFlag::Update],
        )
        .notes(NOTES),
    ],
    differences: "ALPHA compares bytes, whatever the locale. Values that BY reads may have 1 GiB together. In a transaction that writes, all keys that are read are locked.",
    events: Events::By(tell),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    sort(context, arguments, true)
}

fn tell(told: &mut Told<'_>) {
    for change in told.changes {
        match change {
            Change::Set { key, is_new, .. } => {
                if *is_new {
                    told.tell_of(EventClass::New, "new", key);
                }
                told.tell_of(EventClass::List, "sortstore", key);
            }
            other => told.tell_stored(other, "sortstore"),
        }
    }
}
