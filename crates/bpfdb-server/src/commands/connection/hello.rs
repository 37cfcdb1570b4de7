//! HELLO: the protocol, and the client's password and name.

use super::super::arguments::is;
use super::super::prelude::*;
use super::auth::check_password;
use super::client::check_name;
use crate::protocol::REDIS_VERSION;
use crate::protocol::reply::{Protocol, Replies};
use crate::values::integer;

pub(crate) static COMMAND: Command = Command {
    name: "hello",
    summary: "Chooses the protocol; may authenticate and name the connection",
    since: "6.0.0",
    group: Group::Connection,
    complexity: "O(1)",
    arity: -1,
    arguments: "[arguments{protover:integer, [AUTH username_password{username, password}], [SETNAME clientname]}]",
    flags: &[
        Flag::NoScript,
        Flag::Loading,
        Flag::Stale,
        Flag::Fast,
        Flag::NoAuth,
        Flag::AllowBusy,
    ],
    categories: &[Category::Connection],
    secret: true,
    run,
    ..Command::BASE
};

const NOT_AUTHENTICATED: &str = "NOAUTH HELLO must be called with the client already \
     authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to \
     authenticate the client and select the RESP protocol version at the same time";

#[derive(Debug, Default)]
struct Hello<'a> {
    protocol: Option<Protocol>,
    authenticated: bool,
    name: Option<&'a [u8]>,
}

impl<'a> Hello<'a> {
    /// The first mistake is replied, a wrong password among them; nothing is done yet.
    fn parse(context: &mut Context<'_>, arguments: &'a [Vec<u8>]) -> Result<Self, Failure> {
        let mut hello = Self::default();
        let Some((version, mut rest)) = arguments.split_first() else {
            return Ok(hello);
        };
        hello.protocol = Some(protocol(version)?);
        while let Some((option, behind)) = rest.split_first() {
            rest = match behind {
                [user, password, rest @ ..] if is(option, "auth") => {
                    check_password(context, user, password)?;
                    hello.authenticated = true;
                    rest
                }
                [name, rest @ ..] if is(option, "setname") => {
                    check_name(name)?;
                    hello.name = Some(name);
                    rest
                }
                _ => {
                    let start = b"ERR Syntax error in HELLO option '";
                    return Err(Failure::Text([start, &option[..], b"'"].concat()));
                }
            };
        }
        Ok(hello)
    }
}

fn protocol(version: &[u8]) -> Result<Protocol, Failure> {
    match integer::parse(version) {
        Some(2) => Ok(Protocol::Resp2),
        Some(3) => Ok(Protocol::Resp3),
        Some(_) => Err("NOPROTO unsupported protocol version".into()),
        None => Err("ERR Protocol version is not an integer or out of range".into()),
    }
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let hello = Hello::parse(context, arguments)?;
    if hello.authenticated {
        context.connection.authenticated = true;
    }
    if !context.instance.admits(context.connection) {
        return Err(NOT_AUTHENTICATED.into());
    }
    if let Some(name) = hello.name {
        context.connection.name = name.to_vec();
    }
    if let Some(protocol) = hello.protocol {
        context.replies.speak(protocol);
    }
    introduce(context.replies, context.connection.id);
    Ok(())
}

fn introduce(replies: &mut Replies, id: u64) {
    replies.map(7);
    replies.bulk("server");
    replies.bulk("redis");
    replies.bulk("version");
    replies.bulk(REDIS_VERSION);
    replies.bulk("proto");
    replies.integer(replies.protocol().version());
    replies.bulk("id");
    replies.integer(id as i64);
    replies.bulk("mode");
    replies.bulk("standalone");
    replies.bulk("role");
    replies.bulk("master");
    replies.bulk("modules");
    replies.array(0);
}
