//! LINDEX.

use bpfdb::ValueType;
use bpfdb_values::list::List;
use bpfdb_values::places::place;

use super::super::arguments::number;
use super::super::collection::Collection;
use super::super::look_up::look_up;
use super::super::prelude::*;
use super::large_len;

pub(crate) static COMMAND: Command = Command {
    name: "lindex",
    summary: "Reads one element of a list by its number",
    since: "1.0.0",
    group: Group::List,
    complexity: "O(log length of the list)",
    arity: 3,
    arguments: "key:key, index:integer",
    flags: &[Flag::Readonly],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::LooksUp,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, index) = (&arguments[0], &arguments[1]);
    let element = look_up(context, key, ValueType::LIST, |list| match list {
        Collection::Small(bytes) => Ok(List::parse(&bytes)?
            .get(number(index)?)?
            .map(<[u8]>::to_vec)),
        Collection::Large(mut large) => match place(number(index)?, large_len(&large)) {
            Some(place) => {
                let place = place as u64;
                let bytes = large.elements(place..place + 1)?;
                Ok(List::parse(&bytes)?.get(0)?.map(<[u8]>::to_vec))
            }
            None => Ok(None),
        },
    })?;
    context.replies.bulk_or_null(element.flatten().as_deref());
    Ok(())
}
