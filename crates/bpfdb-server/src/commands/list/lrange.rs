//! LRANGE.

use bpfdb::ValueType;
use bpfdb_values::list::List;
use bpfdb_values::places;

use super::super::arguments::number;
use super::super::collection::Collection;
use super::super::look_up::look_up;
use super::super::prelude::*;
use super::{large_len, numbers, reply_elements};

pub(crate) static COMMAND: Command = Command {
    name: "lrange",
    summary: "Reads the elements of a list from one number to another",
    since: "1.0.0",
    group: Group::List,
    complexity: "O(log length of the list, and elements listed)",
    arity: 4,
    arguments: "key:key, start:integer, stop:integer",
    flags: &[Flag::Readonly],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::LooksUp,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (first, last) = (number(&arguments[1])?, number(&arguments[2])?);
    let found = look_up(context, &arguments[0], ValueType::LIST, |list| match list {
        Collection::Small(bytes) => {
            let places = places::range(first, last, List::parse(&bytes)?.len());
            Ok((bytes, places))
        }
        Collection::Large(mut large) => {
            let places = places::range(first, last, large_len(&large));
            let bytes = large.elements(numbers(&places))?;
            Ok((bytes, 0..places.len()))
        }
    })?;
    let Some((bytes, places)) = found else {
        context.replies.array(0);
        return Ok(());
    };
    let elements = List::parse(&bytes)?.elements(places)?;
    reply_elements(context.replies, elements)
}
