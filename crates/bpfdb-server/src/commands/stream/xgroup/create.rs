//! XGROUP CREATE.

use bpfdb_values::stream::groups;

use super::super::super::prelude::*;
use super::super::ids;
use super::super::store::{self, Changed};
use super::{Options, no_stream};

pub(crate) static COMMAND: Command = Command {
    name: "xgroup|create",
    summary: "Makes a group of consumers",
    since: "5.0.0",
    group: Group::Stream,
    complexity: "O(G) with G bytes of all groups",
    arity: -5,
    arguments: "key:key, groupname, id(id|'$'=new_id), [MKSTREAM], [ENTRIESREAD entries_read:integer]",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::Stream],
    keys: &[Keys::at(2, &[KeyFlag::ReadWrite, KeyFlag::Insert])],
    events: Events::Named("xgroup-create"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, name, text) = (&arguments[0], &arguments[1], &arguments[2]);
    let options = Options::parse(context, &arguments[3..], true)?;
    store::change(context.session, key, |stream, is_there| {
        if !is_there && !options.makes_stream {
            return Err(no_stream());
        }
        let last = match ids::shown(text) {
            b"$" => stream.state.last,
            _ => ids::id(text, 0)?,
        };
        let all = stream.groups()?;
        if all.contains_key(name) {
            return Err("BUSYGROUP Consumer Group name already exists".into());
        }
        all.insert(name.clone(), groups::Group::new(last, options.read));
        Ok((Changed::Yes, ()))
    })?;
    context.replies.ok();
    Ok(())
}
