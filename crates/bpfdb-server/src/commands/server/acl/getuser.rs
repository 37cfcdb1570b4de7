//! ACL GETUSER.

use super::super::super::prelude::*;
use crate::instance::users::DEFAULT;

pub(crate) static COMMAND: Command = Command {
    name: "acl|getuser",
    summary: "Describes a user",
    since: "6.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 3,
    arguments: "username",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    if arguments[0] != DEFAULT {
        context.replies.null();
        return Ok(());
    }
    let digest = context.instance.users.password_digest();
    let replies = &mut *context.replies;
    replies.map(6);
    replies.bulk("flags");
    if digest.is_some() {
        replies.set(1);
        replies.bulk("on");
    } else {
        replies.set(2);
        replies.bulk("on");
        replies.bulk("nopass");
    }
    replies.bulk("passwords");
    replies.array(digest.iter().len());
    if let Some(digest) = &digest {
        replies.bulk(digest);
    }
    for (name, rights) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*")] {
        replies.bulk(name);
        replies.bulk(rights);
    }
    replies.bulk("selectors");
    replies.array(0);
    Ok(())
}
