//! XSETID.

use bpfdb_values::stream::Id;

use super::super::arguments::{is, number, syntax_error};
use super::super::prelude::*;
use super::ids;
use super::store::{self, Changed};

pub(crate) static COMMAND: Command = Command {
    name: "xsetid",
    summary: "Sets the last identifier of a stream",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(log B) with B blocks of entries",
    arity: -3,
    arguments: "key:key, last-id, [ENTRIESADDED entries_added:integer@7.0.0], [MAXDELETEDID max_deleted_entry_id@7.0.0]",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::Stream],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Update])],
    run,
    ..Command::BASE
};

/// The identifier, and what the options give.
struct Values {
    last: Id,
    added: Option<u64>,
    max_deleted: Id,
}

fn parse(words: &[Vec<u8>]) -> Result<Values, Failure> {
    let (last, mut words) = (ids::id(&words[0], 0)?, &words[1..]);
    let mut values = Values {
        last,
        added: None,
        max_deleted: Id::MIN,
    };
    while let [option, value, rest @ ..] = words {
        if is(option, "entriesadded") {
            let added = u64::try_from(number(value)?);
            values.added = Some(added.map_err(|_| "ERR entries_added must be positive")?);
        } else if is(option, "maxdeletedid") {
            values.max_deleted = ids::id(value, 0)?;
            if last < values.max_deleted {
                return Err("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id".into());
            }
        } else {
            return Err(syntax_error());
        }
        words = rest;
    }
    if words.is_empty() {
        Ok(values)
    } else {
        Err(syntax_error())
    }
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let values = parse(&arguments[1..])?;
    store::change(context.session, &arguments[0], |stream, is_there| {
        if !is_there {
            return Err("ERR no such key".into());
        }
        if let Some(last) = stream.last_entry()? {
            if values.last < last {
                return Err(
                    "ERR The ID specified in XSETID is smaller than the target stream top item"
                        .into(),
                );
            }
            if values
                .added
                .is_some_and(|added| added < stream.state.length)
            {
                return Err("ERR The entries_added specified in XSETID is smaller than the target stream length".into());
            }
        }
        stream.set_last(values.last)?;
        let state = &mut stream.state;
        state.added = values.added.unwrap_or(state.added);
        if values.max_deleted != Id::MIN {
            state.max_deleted = values.max_deleted;
        }
        Ok((Changed::Yes, ()))
    })?;
    context.replies.ok();
    Ok(())
}
