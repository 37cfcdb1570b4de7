//! Beginning and end of connections.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use crate::client::{Client, Next};
use crate::error::{Result, system};
use crate::poll::{Interest, Source};
use crate::server::Server;
use crate::socket;
use crate::state::{Address, ConnectionState};

/// Connections taken in before others are served.
const ACCEPT_MAX: usize = 64;

impl Server {
    pub(crate) fn accept(&mut self, listener: Source) {
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
                    self.pause_accepting(true);
                    return;
                }
            }
        }
    }

    fn pause_accepting(&mut self, pause: bool) {
        let interest = Interest {
            readable: !pause,
            ..Interest::default()
        };
        let poll = &self.poll;
        poll.change(self.listener.as_fd(), Source::Listener, interest);
        if let Some(unix) = &self.unix {
            poll.change(unix.as_fd(), Source::UnixListener, interest);
        }
        self.accept_paused = pause;
    }

    pub(crate) fn resume_accepting(&mut self) {
        if self.accept_paused {
            self.pause_accepting(false);
        }
    }

    fn admit(&mut self, socket: OwnedFd, listener: Source) {
        self.instance.statistics.connections_received.increment();
        let session = match listener {
            Source::UnixListener => self.session_for_unix(&socket),
            _ => self.session_of_kernel(&socket),
        };
        match session {
            Ok((index, cookie)) => self.admit_with(socket, listener, index, cookie),
            Err(error) => tracing::error!(%error, "cannot take a connection in"),
        }
    }

    /// The kernel has given the connection a session already, or had none.
    fn session_of_kernel(&self, socket: &OwnedFd) -> Result<(Option<u32>, u64)> {
        let cookie = socket::cookie(socket.as_fd()).map_err(system("identify a connection"))?;
        Ok((self.programs.connection(cookie)?, cookie))
    }

    fn session_for_unix(&self, socket: &OwnedFd) -> Result<(Option<u32>, u64)> {
        let cookie = socket::cookie(socket.as_fd()).map_err(system("identify a connection"))?;
        Ok((self.engine.open_session()?, cookie))
    }

    fn admit_with(&mut self, socket: OwnedFd, listener: Source, index: Option<u32>, cookie: u64) {
        let connected = self.instance.statistics.connections.get();
        let full = connected >= u64::from(self.instance.settings.max_clients);
        match index {
            Some(index) if full => {
                self.refuse(socket.as_fd());
                self.end_session(&socket, index, cookie, listener == Source::UnixListener);
            }
            None => self.refuse(socket.as_fd()),
            Some(index) => {
                if listener == Source::Listener {
                    let seconds = self.instance.settings.tcp_keepalive;
                    socket::keep_alive(socket.as_fd(), seconds);
                }
                let (peer, local) = self.addresses(&socket, listener);
                let mut state = ConnectionState::new(cookie, socket.as_raw_fd(), peer, local);
                state.authenticated = !self.instance.users.must_authenticate();
                self.enter(Client::new(socket, index, state));
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
        let rejected = &self.instance.statistics.connections_rejected;
        rejected.increment();
        let so_far = rejected.get();
        if self.instance.tell_refused.is_due() {
            tracing::warn!(so_far, "refusing connections: there are too many");
        }
        // Best effort: it is closed next.
        let _ = socket::send(socket, b"-ERR max number of clients reached\r\n");
    }

    fn enter(&mut self, client: Client) {
        let (index, is_unix) = (client.index, client.connection.is_unix());
        let added = self
            .poll
            .add(client.socket.as_fd(), client.source(), client.interest);
        if let Err(error) = added {
            tracing::error!(%error, "cannot take a connection in");
            self.end_session(&client.socket, index, client.cookie, is_unix);
            return;
        }
        // A former connection with this index was ended by the kernel, which
        // this process has not noticed yet.
        if self.clients.take(index).is_some() {
            self.count_connection(-1, false);
        }
        self.count_connection(1, is_unix);
        self.clients.put(client);
        if is_unix {
            return;
        }
        self.with_client(index, |server, client| {
            client.nudge()?;
            let arrived = server.programs.connections.arrived(index);
            if arrived.is_broken() {
                return Ok(Next::Close);
            }
            if arrived.is_user() {
                client.take_over();
            }
            server.serve(client)
        });
    }

    fn count_connection(&self, more: i64, is_unix: bool) {
        let statistics = &self.instance.statistics;
        statistics.connections.change(more);
        if is_unix {
            statistics.connections_unix.change(more);
        }
    }

    pub(crate) fn close(&mut self, client: Client) {
        let is_unix = client.connection.is_unix();
        self.count_connection(-1, is_unix);
        self.end_session(&client.socket, client.index, client.cookie, is_unix);
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

    pub(crate) fn close_condemned(&mut self) {
        for (index, cookie) in self.clients.take_condemned() {
            let is_it = |client: &Client| client.cookie == cookie;
            if self.clients.get(index).is_some_and(is_it)
                && let Some(client) = self.clients.take(index)
            {
                self.close(client);
            }
        }
    }

    pub(crate) fn close_all(&mut self) {
        for index in 0..self.programs.connections.len() {
            if let Some(client) = self.clients.take(index) {
                self.close(client);
            }
        }
    }
}
