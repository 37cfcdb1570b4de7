//! ACL LIST.

use super::super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "acl|list",
    summary: "Lists users with their rights",
    since: "6.0.0",
    group: Group::Server,
    complexity: "O(1)",
    arity: 2,
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, _: &[Vec<u8>]) -> Outcome {
    let password = match context.instance.users.password_digest() {
        Some(digest) => format!("#{digest}"),
        None => "nopass".into(),
    };
    context.replies.array(1);
    context
        .replies
        .bulk(format!("user default on {password} ~* &* +@all"));
    Ok(())
}
