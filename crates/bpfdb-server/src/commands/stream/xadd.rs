//! XADD.

use bpfdb_values::stream::Id;

use super::super::prelude::*;
use super::super::table::wrong_arity;
use super::entries::reply_id;
use super::ids::NewId;
use super::store::{self, Changed};
use super::trimming::Options;

pub(crate) static COMMAND: Command = Command {
    name: "xadd",
    summary: "Adds an entry to a stream",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(log B) with B blocks of entries, and O(R) for R blocks that are trimmed",
    arity: -5,
    arguments: "key:key, [NOMKSTREAM@6.2.0], [trim{strategy(MAXLEN|MINID@6.2.0), [operator('='=equal|'~'=approximately)], threshold, [LIMIT count:integer@6.2.0]}], id_or_auto('*'=auto_id|id), field_value{field, value}...",
    flags: &[Flag::Write, Flag::DenyOom, Flag::Fast],
    categories: &[Category::Stream],
    tips: &["nondeterministic_output"],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Update])
        .notes("UPDATE instead of INSERT because of the optional trimming feature")],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (options, id, words) = Options::of_xadd(&arguments[1..])?;
    let trim = options.trim()?;
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(wrong_arity("xadd"));
    }
    if id == NewId::This(Id::MIN) {
        return Err("ERR The ID specified in XADD must be greater than 0-0".into());
    }
    let added = store::change(context.session, &arguments[0], |stream, is_there| {
        if !is_there && options.is_for_old_only {
            return Ok((Changed::No, (None, 0)));
        }
        let last = stream.state.last;
        if last == Id::MAX {
            return Err(
                "ERR The stream has exhausted the last possible ID, unable to add more items"
                    .into(),
            );
        }
        let id = id.after(last).ok_or(
            "ERR The ID specified in XADD is equal or smaller than the target stream top item",
        )?;
        stream.append(id, words)?;
        let trimmed = match &trim {
            Some(trim) => stream.trim(trim)?,
            None => 0,
        };
        Ok((Changed::Yes, (Some(id), trimmed)))
    })?;
    let (id, trimmed) = added;
    if trimmed > 0 {
        context.session.note_event(&arguments[0], "xtrim");
    }
    match id {
        Some(id) => reply_id(context.replies, id),
        None => context.replies.null(),
    }
    Ok(())
}
