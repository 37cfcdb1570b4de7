//! AUTH.

use super::super::arguments::syntax_error;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "auth",
    summary: "Authenticates the client with a password",
    since: "1.0.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: -2,
    arguments: "[username@6.0.0], password",
    flags: &[
        Flag::NoScript,
        Flag::Loading,
        Flag::Stale,
        Flag::Fast,
        Flag::NoAuth,
        Flag::AllowBusy,
    ],
    categories: &[Category::Connection],
    differences: "There is one user, default.",
    secret: true,
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match arguments {
        [password] => {
            if !context.instance.users.must_authenticate() {
                return Err(
                    "ERR AUTH <password> called without any password configured for the default \
                     user. Are you sure your configuration is correct?"
                        .into(),
                );
            }
            check_password(context, b"default", password)?;
        }
        [user, password] => check_password(context, user, password)?,
        _ => return Err(syntax_error()),
    }
    context.connection.authenticated = true;
    context.replies.ok();
    Ok(())
}

/// Is its password right? If not, that is counted and logged.
pub(super) fn check_password(context: &mut Context<'_>, user: &[u8], password: &[u8]) -> Outcome {
    if context.instance.users.admit(user, password) {
        return Ok(());
    }
    let failed = &context.instance.statistics.numbers.authentications_failed;
    failed.increment();
    let so_far = failed.get();
    if context.instance.wrong_password_limiter.is_due() {
        let peer = &context.connection.peer;
        tracing::warn!(%peer, so_far, "a client gave a wrong password");
    }
    Err("WRONGPASS invalid username-password pair or user is disabled.".into())
}
