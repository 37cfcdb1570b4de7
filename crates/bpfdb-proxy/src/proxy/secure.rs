//! TLS begins: with clients that ask for it, and with servers that are asked.

use std::sync::Arc;

use bytes::BufMut;

use super::{Proxy, Work};
use crate::io::slab::Id;
use crate::io::tls::{self, SslMode};
use crate::server::Stage;
use crate::wire::reply::state;
use crate::wire::startup;

/// The first byte of TLS: a record of its handshake.
const HANDSHAKE: u8 = 0x16;
const YES: u8 = b'S';
const NO: u8 = b'N';

impl Proxy {
    /// A client asks for TLS, or for another encryption.
    pub(super) fn answer_encryption(&mut self, id: Id, is_tls: bool) {
        let config = self.client_tls.clone().filter(|_| is_tls);
        let client = &mut self.clients[id];
        let asked = if is_tls {
            &mut client.asked_for_tls
        } else {
            &mut client.asked_for_gss
        };
        // As PostgreSQL: each once. Answers to a client that goes on asking, and reads none, would have no bound.
        if std::mem::replace(asked, true) {
            let told = "encryption was asked for before";
            return self.refuse(id, state::PROTOCOL_VIOLATION, told);
        }
        let config = config.filter(|_| !client.socket.has_tls());
        client
            .output
            .put_u8(if config.is_some() { YES } else { NO });
        if let Some(config) = config {
            // What comes in the clear behind the question could be another's.
            if !client.input.is_empty() {
                let told = "received unencrypted data after SSL request";
                return self.refuse(id, state::PROTOCOL_VIOLATION, told);
            }
            let sent = client.socket.send(&mut client.output);
            if sent.is_err() || !client.output.is_empty() {
                return self.leave(id);
            }
            self.begin_client_tls(id, &config);
            return;
        }
        self.flush_client(id);
        self.work.push_back(Work::Client(id));
    }

    /// A client that begins with TLS, without asking. `false`: it does not, or it is gone.
    pub(super) fn begins_with_tls(&mut self, id: Id) -> bool {
        let client = &self.clients[id];
        if client.input.first() != Some(&HANDSHAKE) || client.socket.has_tls() {
            return false;
        }
        match self.client_tls.clone() {
            Some(config) => self.begin_client_tls(id, &config),
            None => false,
        }
    }

    fn begin_client_tls(&mut self, id: Id, config: &Arc<rustls::ServerConfig>) -> bool {
        let client = &mut self.clients[id];
        let begun = tls::with_client(config)
            .map_err(std::io::Error::other)
            .and_then(|tls| client.socket.begin_tls(tls, &mut client.input));
        if let Err(error) = begun {
            tracing::warn!(%error, "TLS with a client has failed");
            self.leave(id);
            return false;
        }
        self.client_waits(id);
        true
    }

    /// May a client go on without TLS?
    pub(super) fn may_be_plain(&self, id: Id) -> bool {
        let client = &self.clients[id];
        self.settings.client_tls.mode < SslMode::Require
            || client.socket.has_tls()
            || client.address.is_none()
    }

    /// A server that is connected is asked for TLS. `false`: it is not.
    pub(super) fn ask_for_tls(&mut self, id: Id) -> bool {
        let server = &mut self.servers[id];
        let is_inet = server.host.is_inet();
        let is_tried = self.settings.server_tls.mode != SslMode::Allow || server.wants_tls;
        if self.server_tls.is_none() || !is_inet || !is_tried {
            return false;
        }
        startup::ask_for_tls(&mut server.output);
        server.stage = Stage::AskedTls;
        self.flush_server(id);
        true
    }

    /// A server has answered whether it has TLS.
    pub(super) fn tls_answered(&mut self, id: Id) {
        let server = &mut self.servers[id];
        let answer = &server.input[..];
        let failed = match (answer, self.settings.server_tls.mode) {
            ([], _) => return,
            ([YES], _) => {
                server.input.clear();
                return self.begin_server_tls(id);
            }
            ([NO], SslMode::Prefer) => {
                server.input.clear();
                return self.start_login(id);
            }
            ([NO], _) => "server does not support SSL, but SSL was required",
            _ => "server has answered the request for SSL with something else",
        };
        self.login_failed(id, failed.into());
    }

    fn begin_server_tls(&mut self, id: Id) {
        let server = &mut self.servers[id];
        let host = server.host.name.clone();
        let Some(config) = &self.server_tls else {
            return;
        };
        let begun = tls::with_server(config, &host)
            .map_err(std::io::Error::other)
            .and_then(|tls| server.socket.begin_tls(tls, &mut server.input));
        match begun {
            Ok(()) => self.start_login(id),
            Err(error) => self.login_failed(id, format!("TLS with the server has failed: {error}")),
        }
    }
}
