//! LPOS.

use bpfdb::ValueType;
use bpfdb_values::list::{End, Search};

use super::super::arguments::{at_least, is, number, syntax_error};
use super::super::collection::{check_reply, load};
use super::super::prelude::*;
use super::list_of;

pub(crate) static COMMAND: Command = Command {
    name: "lpos",
    summary: "Returns where in a list an element is",
    since: "6.0.6",
    group: Group::List,
    complexity: "O(length of the list)",
    arity: -3,
    arguments: "key:key, element, [RANK rank:integer], [COUNT num-matches:integer], [MAXLEN len:integer]",
    flags: &[Flag::Readonly],
    categories: &[Category::List],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    run,
    ..Command::BASE
};

#[derive(Clone, Copy, Debug)]
struct Options {
    from: End,
    /// Matches that are passed over.
    skip: usize,
    /// `None`: one, and its place is the reply. 0: all.
    count: Option<usize>,
    /// 0: all.
    compared: usize,
}

impl Options {
    fn parse(words: &[Vec<u8>]) -> Result<Self, Failure> {
        let mut options = Self {
            from: End::Head,
            skip: 0,
            count: None,
            compared: 0,
        };
        for pair in words.chunks(2) {
            let [option, value] = pair else {
                return Err(syntax_error());
            };
            if is(option, "rank") {
                (options.from, options.skip) = rank(value)?;
            } else if is(option, "count") {
                let count = at_least(value, 0, "ERR COUNT can't be negative")?;
                options.count = Some(usize::try_from(count).unwrap_or(usize::MAX));
            } else if is(option, "maxlen") {
                let compared = at_least(value, 0, "ERR MAXLEN can't be negative")?;
                options.compared = usize::try_from(compared).unwrap_or(usize::MAX);
            } else {
                return Err(syntax_error());
            }
        }
        Ok(options)
    }
}

/// From which end, and how many matches are before the first one that counts.
fn rank(text: &[u8]) -> Result<(End, usize), Failure> {
    let rank = number(text)?;
    if rank == 0 {
        return Err(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second \
                    ... or use negative to start from the end of the list"
                .into(),
        );
    }
    let end = if rank < 0 { End::Tail } else { End::Head };
    // As in Redis, the least number is no more than -1.
    let passed = rank.checked_abs().map_or(0, |rank| rank - 1);
    let skip = usize::try_from(passed).unwrap_or(usize::MAX);
    Ok((end, skip))
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let options = Options::parse(&arguments[2..])?;
    let read = load(context.session, &arguments[0], ValueType::LIST)?;
    let list = list_of(read.as_ref().map(|read| &read.value[..]))?;
    let found = list.positions(Search {
        element: &arguments[1],
        from: options.from,
        skip: options.skip,
        compared: (options.compared > 0).then_some(options.compared),
    })?;
    let replies = &mut *context.replies;
    match (options.count, found.first()) {
        (Some(count), _) => {
            let count = if count == 0 {
                found.len()
            } else {
                count.min(found.len())
            };
            let start = replies.len();
            replies.array(count);
            for &place in &found[..count] {
                replies.integer(place as i64);
                check_reply(replies, start)?;
            }
        }
        (None, Some(&place)) => replies.integer(place as i64),
        (None, None) => replies.null(),
    }
    Ok(())
}
