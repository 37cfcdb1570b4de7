//! XGROUP SETID.

use super::super::super::prelude::*;
use super::super::ids;
use super::super::store::Changed;
use super::{Options, change};

pub(crate) static COMMAND: Command = Command {
    name: "xgroup|setid",
    summary: "Sets the entry from which on a group reads",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(G) with G bytes of all groups",
    arity: -5,
    arguments: "key:key, groupname, id(id|'$'=new_id), [ENTRIESREAD entries_read:integer]",
    flags: &[Flag::Write],
    categories: &[Category::Stream],
    keys: &[Keys::at(2, &[KeyFlag::ReadWrite, KeyFlag::Update])],
    events: Events::Named("xgroup-setid"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let text = &arguments[2];
    let options = Options::parse(context, &arguments[3..], false)?;
    change(context, arguments, |state, group| {
        group.last = match ids::shown(text) {
            b"$" => state.last,
            _ => ids::id_or_end(text, 0)?,
        };
        group.read = options.read;
        Ok((Changed::Yes, ()))
    })?;
    context.replies.ok();
    Ok(())
}
