//! Beginning and end of connections.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

use super::{ACCEPT_PAUSE, Client, Server};
use crate::connection::info::{Address, ConnectionInfo};
use crate::connection::{Connection, Next};
use crate::error::{Result, system};
use crate::io::poll::{Interest, Source};
use crate::io::socket;

/// Connections taken in before others are served.
const ACCEPT_MAX: usize = 64;

impl Server {
    pub(super) fn accept(&mut self, listener: Source) {
        for _ in 0..ACCEPT_MAX {
            let accepted = match (listener, &self.unix) {
                (Source::UnixListener, Some(unix)) => unix.accept(),
                _ => socket::accept(&self.listener),
            };
            match accepted {
                Ok(Some(socket)) => self.admit(socket, listener),
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "cannot accept a connection");
                    self.pause_accepting(Some(Instant::now() + ACCEPT_PAUSE));
                    return;
                }
            }
        }
    }

    /// `None`: no longer.
    fn pause_accepting(&mut self, until: Option<Instant>) {
        let interest = Interest {
            readable: until.is_none(),
            ..Interest::default()
        };
        let poll = &self.poll;
        poll.change(self.listener.as_fd(), Source::Listener, interest);
        if let Some(unix) = &self.unix {
            poll.change(unix.as_fd(), Source::UnixListener, interest);
        }
        self.accept_paused = until;
    }

    pub(super) fn resume_accepting(&mut self) {
        if self
            .accept_paused
            .is_some_and(|until| until <= Instant::now())
        {
            self.pause_accepting(None);
        }
    }

    fn admit(&mut self, socket: OwnedFd, listener: Source) {
        self.instance
            .statistics
            .numbers
            .connections_received
            .increment();
        let session = match listener {
            Source::UnixListener => self.session_for_unix(&socket),
            _ => self.session_of_kernel(&socket),
        };
        match session {
            Ok((index, cookie)) => self.admit_with(socket, listener, index, cookie),
            Err(error) => tracing::error!(%error, "cannot take a connection in"),
        }
    }

    /// The kernel has given the connection a session already, or had none; or the client has reset
    /// it meanwhile, and its session is gone with it.
    fn session_of_kernel(&self, socket: &OwnedFd) -> Result<(Option<u32>, u64)> {
        let cookie = socket::cookie(socket.as_fd()).map_err(system("identify a connection"))?;
        Ok((self.programs.connection(cookie)?, cookie))
    }

    fn session_for_unix(&self, socket: &OwnedFd) -> Result<(Option<u32>, u64)> {
        let cookie = socket::cookie(socket.as_fd()).map_err(system("identify a connection"))?;
        Ok((self.engine.open_session()?, cookie))
    }

    fn admit_with(&mut self, socket: OwnedFd, listener: Source, index: Option<u32>, cookie: u64) {
        let connected = self.instance.statistics.numbers.connections.get();
        let full = connected >= u64::from(self.instance.settings.max_clients);
        match index {
            Some(index) if full => {
                self.refuse(socket.as_fd());
                self.end_session(&socket, index, cookie, listener == Source::UnixListener);
            }
            None if listener == Source::Listener && socket::peer(socket.as_fd()).is_none() => {
                tracing::debug!("a connection was reset before it was accepted");
            }
            None => self.refuse(socket.as_fd()),
            Some(index) => {
                if listener == Source::Listener {
                    let seconds = self.instance.settings.tcp_keepalive;
                    socket::keep_alive(socket.as_fd(), seconds);
                }
                let (peer, local) = self.addresses(&socket, listener);
                let mut info = ConnectionInfo::new(cookie, socket.as_raw_fd(), peer, local);
                info.authenticated = !self.instance.users.must_authenticate();
                // It may have come before the kernel knew of a SWAPDB.
                if let Some(first) = self.instance.databases.get(0) {
                    self.instance.kernel.set_database(index, first);
                }
                self.enter(Connection::new(socket, index, info));
            }
        }
    }

    fn addresses(&self, socket: &OwnedFd, listener: Source) -> (Address, Address) {
        match &self.unix {
            Some(unix) if listener == Source::UnixListener => {
                let path = Rc::new(unix.path().to_owned());
                (Address::Unix(Rc::clone(&path)), Address::Unix(path))
            }
            _ => {
                let own = self.instance.address;
                let peer = socket::peer(socket.as_fd()).unwrap_or(own);
                let local = socket::local(socket.as_fd()).unwrap_or(own);
                (Address::Inet(peer), Address::Inet(local))
            }
        }
    }

    /// There is no session left for this connection, or there are too many.
    fn refuse(&mut self, socket: BorrowedFd<'_>) {
        let rejected = &self.instance.statistics.numbers.connections_rejected;
        rejected.increment();
        let so_far = rejected.get();
        if self.instance.refused_limiter.is_due() {
            tracing::warn!(so_far, "refusing connections: there are too many");
        }
        // Best effort: it is closed next.
        let _ = socket::send(socket, b"-ERR max number of clients reached\r\n");
    }

    fn enter(&mut self, connection: Connection) {
        let (index, is_unix) = (connection.index, connection.info.is_unix());
        let (socket, source) = (connection.socket.as_fd(), connection.source());
        if let Err(error) = self.poll.add(socket, source, connection.interest) {
            tracing::error!(%error, "cannot take a connection in");
            self.end_session(&connection.socket, index, connection.cookie, is_unix);
            return;
        }
        // A former connection with this index was ended by the kernel, which
        // this process has not noticed yet.
        if let Some(former) = self.take(index) {
            self.instance.forget(index);
            self.forget_rest(&former);
            self.count_connection(-1, false);
        }
        self.count_connection(1, is_unix);
        self.connections.put(connection);
        if !is_unix {
            self.with_client(index, Self::serve_first);
        }
    }

    /// What has arrived before the connection was accepted.
    fn serve_first(&mut self, client: &mut Client) -> std::io::Result<Next> {
        let connection = &mut client.connection;
        connection.wake()?;
        let arrived = self.programs.connections.arrived(connection.index);
        if arrived.is_broken() {
            return Ok(Next::Close);
        }
        if arrived.is_daemon() {
            connection.take_over(&self.programs.connections);
        } else if !self.instance.admits(&connection.info) {
            // It was there before there was a password: the kernel would never ask for it.
            return Ok(Next::Close);
        }
        connection.info.is_plain |= arrived.is_plain();
        self.serve(client)
    }

    fn count_connection(&self, more: i64, is_unix: bool) {
        let statistics = &self.instance.statistics;
        statistics.numbers.connections.change(more);
        if is_unix {
            statistics.numbers.connections_unix.change(more);
        }
    }

    pub(super) fn close(&mut self, client: Client) {
        let connection = &client.connection;
        let is_unix = connection.info.is_unix();
        self.count_connection(-1, is_unix);
        connection.stand_up(&self.programs.connections);
        self.end_session(
            &connection.socket,
            connection.index,
            connection.cookie,
            is_unix,
        );
        self.instance.forget(connection.index);
        self.forget_rest(&client);
        // What it has begun goes after its session has: locks first, then their holder.
        drop(client);
        self.note_memory();
    }

    /// Through TCP the stream ends first: that waits for a program which answers on
    /// the connection, and retires it. Its transaction must not be rolled back in
    /// the middle of a request.
    fn end_session(&self, socket: &OwnedFd, index: u32, cookie: u64, is_unix: bool) {
        if !is_unix {
            socket::end_stream(socket.as_fd());
            self.programs.release(index, cookie);
        } else if let Err(error) = self.engine.close_session(index) {
            tracing::error!(%error, index, "cannot end the session of a connection");
        }
    }

    /// Closes those that `close_later` was called for.
    pub(super) fn close_those_told(&mut self) {
        for (index, cookie) in self.connections.take_closing() {
            let is_it = |connection: &Connection| connection.cookie == cookie;
            if self.connections.get(index).is_some_and(is_it)
                && let Some(client) = self.take(index)
            {
                self.close(client);
            }
        }
    }

    /// Closes connections that were not accepted: the kernel leaves the sessions of those that the daemon
    /// answers to it.
    pub(super) fn refuse_waiting(&self) {
        if let Err(error) = socket::stop_listening(&self.listener) {
            tracing::warn!(%error, "cannot close the listener");
        }
        for (index, cookie) in self.programs.connections.open() {
            self.programs.release(index, cookie);
        }
    }

    pub(super) fn close_all(&mut self) {
        for index in 0..self.programs.connections.len() {
            if let Some(client) = self.take(index) {
                self.close(client);
            }
        }
    }
}
