//! Requests to cancel: a connection each, which the server closes when it has sent its signal.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::Proxy;
use super::timeouts::is_over;
use crate::io::poll::{Event, Interest, Source};
use crate::io::slab::Id;
use crate::io::socket::{self, Received};
use crate::io::stream::Stream;

/// At a time: a request costs no password.
const CANCELS_MAX: usize = 64;
/// Of one server: a client that asks again and again leaves room for others.
const CANCELS_OF_ONE_MAX: u32 = 4;
/// Those for mirrors find no place beyond so many: no client waits for them, and clients' have to find one.
const MIRROR_CANCELS_MAX: usize = CANCELS_MAX / 2;

#[derive(Debug)]
pub(super) struct Cancel {
    socket: Stream,
    output: BytesMut,
    input: BytesMut,
    since: Instant,
    /// Not given to another client meanwhile; `None`: it is closed anyway.
    server: Option<Id>,
    /// The connection of the client that asks. It ends when the database has closed the other one, and has sent its signal by
    /// then: a driver waits for that, and what it sends next is not hit.
    _asker: Option<OwnedFd>,
}

/// A client's in the place of the number of a process, by which drivers tell connections apart: so not the last one's
/// again. It begins anew when there is none left, which the secrets beside the numbers bear.
pub(super) fn next_number(last: &mut i32) -> i32 {
    *last = last.checked_add(1).unwrap_or(1);
    *last
}

impl Proxy {
    /// A client asks for what another connection of it does to be cancelled, and leaves.
    pub(super) fn asks_to_cancel(&mut self, id: Id, process: i32, secret: i32) {
        let socket = self.clients[id].socket.as_fd();
        let asker = socket.try_clone_to_owned().ok();
        // Else it would be heard of for as long as the other descriptor is open.
        self.poll.remove(socket);
        self.cancel(process, secret, asker);
        self.leave(id);
    }

    /// What the client of this key does is cancelled. `asker`: the connection that asked for it.
    pub(super) fn cancel(&mut self, process: i32, secret: i32, asker: Option<OwnedFd>) {
        let is_it = |id: &Id| {
            let client = &self.clients[*id];
            (client.number, client.secret) == (process, secret)
        };
        let Some(id) = self.clients.ids().into_iter().find(is_it) else {
            return self.cancel_there(process, secret);
        };
        self.grab(id);
        // Taking it may have closed it. While it is prepared, its client waits for it, as for one that is not free.
        let server = self.clients.get(id).and_then(|client| client.server);
        if let Some(server) = server.filter(|server| !self.servers[*server].is_prepared()) {
            self.send_cancel(server, true, asker);
        }
    }

    /// Has the server cancel what it does. `stays`: it is used on.
    pub(super) fn send_cancel(&mut self, id: Id, stays: bool, asker: Option<OwnedFd>) {
        let is_mirror = self.pools[self.servers[id].pool as usize].key.is_mirror;
        let most = if is_mirror {
            MIRROR_CANCELS_MAX
        } else {
            CANCELS_MAX
        };
        let of_one = self.servers[id].cancels;
        if self.cancels.len() >= most || stays && of_one >= CANCELS_OF_ONE_MAX {
            tracing::warn!("too many requests to cancel at the same time");
            return;
        }
        let server = &mut self.servers[id];
        let keep_alive = &self.settings.keep_alive;
        let place = server.host.place();
        let socket = match place.and_then(|place| socket::connect(place, keep_alive)) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, "cannot cancel");
                return;
            }
        };
        let mut output = BytesMut::new();
        frontend::cancel_request(server.key.0, server.key.1, &mut output);
        let cancel = self.cancels.insert(Cancel {
            socket: socket.into(),
            output,
            input: BytesMut::new(),
            since: Instant::now(),
            server: stays.then_some(id),
            _asker: asker,
        });
        let interest = Interest {
            readable: true,
            writable: true,
        };
        let fd = self.cancels[cancel].socket.as_fd();
        if let Err(error) = self.poll.add(fd, Source::Cancel(cancel), interest) {
            tracing::error!(%error, "cannot cancel");
            self.cancels.remove(cancel);
        } else if stays {
            self.servers[id].cancels += 1;
        }
    }

    pub(super) fn cancel_seen(&mut self, id: Id, event: Event) {
        let Some(cancel) = self.cancels.get_mut(id) else {
            return;
        };
        let mut is_over = false;
        if event.writable {
            is_over |= cancel.socket.send(&mut cancel.output).is_err();
            if cancel.output.is_empty() {
                (self.poll).change(cancel.socket.as_fd(), Source::Cancel(id), Interest::READ);
            }
        }
        if event.readable || event.failed {
            let received = cancel.socket.receive(&mut cancel.input);
            is_over |= event.failed || received == Received::End;
        }
        if is_over {
            self.cancelled(id);
        }
    }

    /// Requests that the database does not answer. One that is late may still hit what its server does for
    /// the next client: so the server is not used any more.
    pub(super) fn end_cancels(&mut self, now: Instant) {
        let limit = self.settings.cancel_wait_timeout;
        for id in self.cancels.ids() {
            let Some(cancel) = self.cancels.get(id) else {
                continue;
            };
            if !is_over(cancel.since, limit, now) {
                continue;
            }
            tracing::warn!("the database does not answer a request to cancel");
            if let Some(server) = cancel
                .server
                .and_then(|server| self.servers.get_mut(server))
            {
                server.unsure = true;
            }
            self.cancelled(id);
        }
    }

    fn cancelled(&mut self, id: Id) {
        let server = self.cancels.remove(id).and_then(|cancel| cancel.server);
        let Some(server) = server.filter(|server| self.servers.get(*server).is_some()) else {
            return;
        };
        self.servers[server].cancels -= 1;
        self.over(server);
    }
}

#[cfg(test)]
mod tests {
    use super::next_number;

    #[test]
    fn numbers_begin_anew_behind_the_last() {
        let mut last = i32::MAX - 1;
        let numbers = [(); 3].map(|()| next_number(&mut last));
        assert_eq!(numbers, [i32::MAX, 1, 2]);
    }
}
