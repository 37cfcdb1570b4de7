//! CLIENT KILL, in the old form (an address) and the new one (filters).

use super::super::super::arguments::{is, syntax_error};
use super::super::super::job::DeferredCommand;
use super::super::super::prelude::*;
use super::list::ClientType;
use crate::connection::info::{Address, ConnectionInfo};

pub(crate) static COMMAND: Command = Command {
    name: "client|kill",
    summary: "Closes connections",
    since: "2.4.0",
    group: Group::Connection,
    complexity: "O(connections)",
    arity: -3,
    arguments: "filter(ip:port!2.8.12|new-format([ID client-id:integer@2.8.12]|[TYPE normal_master_slave_pubsub(NORMAL|MASTER@3.2.0|SLAVE|REPLICA@5.0.0|PUBSUB)@2.8.12]|[USER username]|[ADDR ip:port]|[LADDR ip:port@6.2.0]|[SKIPME yes/no])...)",
    flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
    categories: &[Category::Connection],
    run: |context, _| {
        context.go_on_with(DeferredCommand(run));
        Ok(())
    },
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    if let [address] = arguments {
        let filter = Filter {
            peer: Some(address),
            ..Filter::default()
        };
        return match kill(context, &filter, false) {
            0 => Err("ERR No such client".into()),
            _ => {
                context.replies.ok();
                Ok(())
            }
        };
    }
    let (filter, skip_me) = Filter::parse(arguments)?;
    let killed = kill(context, &filter, skip_me);
    context.replies.integer(killed);
    Ok(())
}

/// What must be so of a connection that is to end.
#[derive(Debug, Default)]
struct Filter<'a> {
    id: Option<u64>,
    peer: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
    older: Option<u64>,
    of_type: Option<ClientType>,
}

impl<'a> Filter<'a> {
    fn parse(arguments: &'a [Vec<u8>]) -> Result<(Self, bool), Failure> {
        let mut filter = Self::default();
        let mut skip_me = true;
        if !arguments.len().is_multiple_of(2) {
            return Err(syntax_error());
        }
        for pair in arguments.chunks_exact(2) {
            let (option, value) = (&pair[0], &pair[1]);
            match option.to_ascii_lowercase().as_slice() {
                b"id" => filter.id = Some(id(value)?),
                b"addr" => filter.peer = Some(value),
                b"laddr" => filter.local = Some(value),
                b"user" if is(value, "default") => filter.user = Some(value),
                b"user" => {
                    return Err(Failure::Text(
                        [b"ERR No such user '", &value[..], b"'"].concat(),
                    ));
                }
                b"type" => filter.of_type = Some(ClientType::parse(value)?),
                b"maxage" => filter.older = Some(id(value)?),
                b"skipme" if is(value, "yes") => skip_me = true,
                b"skipme" if is(value, "no") => skip_me = false,
                _ => return Err(syntax_error()),
            }
        }
        Ok((filter, skip_me))
    }

    fn fits(&self, connection: &ConnectionInfo) -> bool {
        let is = |wanted: Option<&[u8]>, address: &Address| {
            wanted.is_none_or(|wanted| wanted == address.to_string().as_bytes())
        };
        let old = |least| connection.since.elapsed().as_secs() >= least;
        self.id.is_none_or(|id| id == connection.id)
            && is(self.peer, &connection.peer)
            && is(self.local, &connection.local)
            && self.older.is_none_or(old)
            && self
                .of_type
                .is_none_or(|wanted| wanted == ClientType::of(connection))
    }
}

fn id(text: &[u8]) -> Result<u64, Failure> {
    crate::values::integer::parse(text)
        .and_then(|id| u64::try_from(id).ok())
        .filter(|&id| id > 0)
        .ok_or_else(|| "ERR client-id should be greater than 0".into())
}

/// How many; the connection itself ends after its reply.
fn kill(context: &mut Context<'_>, filter: &Filter<'_>, skip_me: bool) -> i64 {
    let others: Vec<(u32, u64)> = context
        .others
        .iter()
        .filter(|other| filter.fits(&other.info))
        .map(|other| (other.index, other.cookie))
        .collect();
    let mut killed = others.len() as i64;
    for (index, cookie) in others {
        context.others.close_later(index, cookie);
    }
    if !skip_me && filter.fits(context.connection) {
        context.connection.close = true;
        killed += 1;
    }
    killed
}
