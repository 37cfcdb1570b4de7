//! The database `pgbouncer`: operators look at the proxy and command it, in the words of PgBouncer 1.18.
//!
//! | module | |
//! |---|---|
//! | `command` | what was asked |
//! | `show` | tables |
//! | `state` | what clients and servers do, also within the kernel |
//! | `control` | PAUSE and its kin |
//! | `reload` | settings change |

mod command;
mod control;
mod reload;
mod show;
mod state;

use std::os::fd::AsFd;

use bytes::BytesMut;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;

use super::cancel::next_number;
use super::{HIGH, Proxy};
use crate::client::{Role, Stage};
use crate::config::CONSOLE;
use crate::io::slab::Id;
use crate::wire::framing::{HEADER, Next};
use crate::wire::reply::{self, state as sql};
use crate::wire::{rows, text};
use command::Command;
pub(super) use control::Awaited;
pub(super) use reload::ports;
pub(super) use show::Counts;

/// No command is longer, bytes.
const COMMAND_MAX: usize = 64 * 1024;
/// The version whose columns and commands these are.
const VERSION: &str = "1.18.0";

const SYNC: u8 = b'S';
const TERMINATE: u8 = b'X';

/// What came of a command.
enum Outcome {
    /// Its reply is written.
    Done,
    /// The reply comes later.
    Later,
}

impl Proxy {
    /// What a client that asks for the console may do there; and whether its user of this machine proves
    /// that, as the one the proxy runs as does.
    pub(super) fn console_role(&self, id: Id, user: &str) -> Option<(Role, bool)> {
        let administration = &self.settings.administration;
        let is_in = |users: &[String]| users.iter().any(|one| one == user);
        let peer = || getsockopt(&self.clients[id].socket.as_fd(), PeerCredentials).ok();
        // Of a TCP socket the user is no client's.
        if user == CONSOLE
            && peer().is_some_and(|peer| peer.pid() > 0 && peer.uid() == geteuid().as_raw())
        {
            return Some((Role::Admin, true));
        }
        if is_in(&administration.admin_users) {
            return Some((Role::Admin, false));
        }
        let may_look = administration.anyone_may_look || is_in(&administration.stats_users);
        may_look.then_some((Role::Stats, false))
    }

    pub(super) fn greet_console(&mut self, id: Id) {
        let client = &mut self.clients[id];
        let version = format!("{VERSION}/bouncer");
        for (name, value) in [
            ("server_version", version.as_str()),
            ("client_encoding", "UTF8"),
            ("server_encoding", "UTF8"),
            ("DateStyle", "ISO"),
            ("TimeZone", "GMT"),
            ("standard_conforming_strings", "on"),
            ("is_superuser", "on"),
        ] {
            reply::parameter(&mut client.output, name, value);
        }
        client.number = next_number(&mut self.last_number);
        reply::key(&mut client.output, client.number, client.secret);
        reply::ready(&mut client.output);
        client.stage = Stage::Ready;
        self.flush_client(id);
    }

    /// Commands of an operator, as far as they are there.
    pub(super) fn serve_console(&mut self, id: Id) {
        while self.serve_command(id) {}
        if self.clients.get(id).is_some() {
            self.flush_client(id);
        }
    }

    fn serve_command(&mut self, id: Id) -> bool {
        let is_busy = self.awaited.iter().any(|(client, _)| *client == id);
        let Some(client) = self.clients.get_mut(id).filter(|_| !is_busy) else {
            return false;
        };
        // It goes on when the operator has taken what is there.
        if client.output.len() >= HIGH {
            return false;
        }
        let (kind, size) = match client.framing.next(&client.input) {
            Next::Short => return false,
            Next::Begins { kind, size, .. } if size <= COMMAND_MAX => (kind, size),
            _ => {
                self.refuse(id, sql::PROTOCOL_VIOLATION, "invalid message length");
                return false;
            }
        };
        if client.input.len() < size {
            return false;
        }
        let message = client.input.split_to(size);
        match kind {
            TERMINATE => {
                self.leave(id);
                return false;
            }
            b'Q' => self.command(id, &message[HEADER..]),
            SYNC => {
                client.is_open = false;
                reply::ready(&mut client.output);
            }
            // One error for all messages up to the next Sync.
            _ if client.is_open => {}
            _ => {
                client.is_open = true;
                let told = "extended query protocol not supported by admin console";
                rows::error(&mut client.output, sql::FEATURE_NOT_SUPPORTED, told);
            }
        }
        true
    }

    fn command(&mut self, id: Id, body: &[u8]) {
        let asked = text::split(body).map_or(&b""[..], |(asked, _)| asked);
        let asked = text::shown(asked);
        self.console_traffic.queries += 1;
        self.console_traffic.transactions += 1;
        let role = self.clients[id].console;
        let command = Command::of(&asked);
        let outcome = match command {
            Some(command) if role == Some(Role::Admin) || command.only_looks() => {
                self.execute(id, command)
            }
            Some(_) => Err("admin access needed".to_owned()),
            None => Err(format!("invalid command '{asked}', use SHOW HELP;")),
        };
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        match outcome {
            Ok(Outcome::Done) => reply::ready(&mut client.output),
            Ok(Outcome::Later) => self.look_at_awaited(),
            Err(told) => {
                rows::error(&mut client.output, sql::PROTOCOL_VIOLATION, &told);
                reply::ready(&mut client.output);
            }
        }
    }

    fn execute(&mut self, id: Id, command: Command) -> Result<Outcome, String> {
        match command {
            Command::Show(what) => {
                let mut out = BytesMut::new();
                self.show(what, &mut out);
                self.clients[id].output.extend_from_slice(&out);
                Ok(Outcome::Done)
            }
            command => {
                tracing::info!(user = self.clients[id].user, ?command, "console");
                self.control(id, command)
            }
        }
    }
}
