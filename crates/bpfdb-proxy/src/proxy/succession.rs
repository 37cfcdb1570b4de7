//! A proxy takes the place of another one, and drops nobody ([`crate::takeover`]).
//!
//! The successor gets the listeners, so that no connection is refused meanwhile, and each client when it is between
//! two transactions and keeps no server. Whoever cannot be handed over (TLS, sessions with state) is served by the
//! predecessor until it leaves; then that ends. Each process has servers of its own.
//!
//! What the kernel has brought to a client and the client has not read is in a map of the predecessor's. So the
//! successor keeps that map.

use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept4, bind, connect, getsockopt,
    listen, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::geteuid;

use super::Proxy;
use crate::client::{Client, Stage};
use crate::error::{Error, Result, system};
use crate::io::poll::{Interest, Source};
use crate::io::slab::Id;
use crate::io::socket::{self as sockets, Address};
use crate::pool::Key;
use crate::takeover::{Channel, ClientState, Message, Received};
use crate::wire::hint::{self, Hint};
use crate::wire::reply::state;
use crate::wire::text;

/// An answer of the predecessor takes no longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The proxy whose place we take.
#[derive(Debug)]
pub(super) struct Predecessor {
    channel: Channel,
    /// Those that were not taken yet.
    listeners: Vec<(Address, OwnedFd)>,
    /// Maps that clients of it still have something in.
    kept: Vec<OwnedFd>,
}

#[derive(Debug, Default)]
pub(super) struct Succession {
    /// Where a successor comes.
    listener: Option<OwnedFd>,
    /// It has come.
    successor: Option<Channel>,
    /// It has taken over.
    pub(super) is_leaving: bool,
    predecessor: Option<Predecessor>,
    kept: Vec<OwnedFd>,
}

impl Predecessor {
    /// The proxy at this socket, with its listeners; `None`: there is none.
    pub(super) fn find(path: &Path) -> Result<Option<Self>> {
        let failed = || system(format!("take over at {}", path.display()));
        let kind = (AddressFamily::Unix, SockType::SeqPacket);
        let fd = socket(kind.0, kind.1, SockFlag::SOCK_CLOEXEC, None).map_err(failed())?;
        let address = UnixAddr::new(path).map_err(failed())?;
        match connect(fd.as_raw_fd(), &address) {
            Ok(()) => {}
            Err(nix::Error::ENOENT | nix::Error::ECONNREFUSED) => return Ok(None),
            Err(error) => return Err(failed()(error)),
        }
        let limit = TimeVal::seconds(PATIENCE.as_secs() as i64);
        setsockopt(&fd, sockopt::ReceiveTimeout, &limit).map_err(failed())?;
        let mut predecessor = Self {
            channel: Channel(fd),
            listeners: Vec::new(),
            kept: Vec::new(),
        };
        loop {
            match predecessor.answer()? {
                (Message::Listener(address), Some(fd)) => {
                    predecessor.listeners.push((address, fd));
                }
                (Message::AllListeners, None) => return Ok(Some(predecessor)),
                _ => return Err(unexpected()),
            }
        }
    }

    fn answer(&self) -> Result<(Message, Option<OwnedFd>)> {
        match self.channel.receive() {
            Received::Message(message, fd) => Ok((message, fd)),
            Received::Nothing | Received::End => Err(unexpected()),
        }
    }

    /// The listener at an address; a port of zero is any.
    pub(super) fn listener(&mut self, wanted: &Address) -> Option<OwnedFd> {
        let is_it = |address: &Address| match (address, wanted) {
            (Address::Inet(address), Address::Inet(wanted)) => {
                address.ip() == wanted.ip() && [0, address.port()].contains(&wanted.port())
            }
            (address, wanted) => address == wanted,
        };
        let found = self
            .listeners
            .iter()
            .position(|(address, _)| is_it(address))?;
        Some(self.listeners.swap_remove(found).1)
    }

    /// We can serve. When this returns the predecessor listens no more; clients come from then on.
    pub(super) fn take_over(&mut self) -> Result<()> {
        let sent = self.channel.send(&Message::Ready, None);
        sent.map_err(system("take over"))?;
        loop {
            match self.answer()? {
                (Message::Keep, Some(fd)) => self.kept.push(fd),
                (Message::Gone, None) => break,
                _ => return Err(unexpected()),
            }
        }
        let flags = FcntlArg::F_SETFL(OFlag::O_NONBLOCK);
        fcntl(&self.channel.0, flags).map_err(system("take over"))?;
        tracing::info!("this proxy has taken over");
        Ok(())
    }
}

fn unexpected() -> Error {
    Error::Settings("the proxy at takeover_socket does not answer as it should".into())
}

/// Where successors come: only those of our user, or root.
fn listen_for_successor(path: &Path) -> Result<OwnedFd> {
    let failed = || system(format!("listen at {}", path.display()));
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).map_err(failed())?;
    // The predecessor's, or that of one that was killed.
    let _ = std::fs::remove_file(path);
    bind(fd.as_raw_fd(), &UnixAddr::new(path).map_err(failed())?).map_err(failed())?;
    sockets::set_mode(&Address::Unix(path.to_owned()), 0o600)?;
    let one = Backlog::new(1).map_err(failed())?;
    listen(&fd, one).map_err(failed())?;
    Ok(fd)
}

impl Proxy {
    /// Waits for clients of the predecessor, and for a successor.
    ///
    /// # Errors
    /// The system does not wait for them.
    pub(super) fn begin_succession(&mut self, predecessor: Option<Predecessor>) -> Result<()> {
        if let Some(predecessor) = predecessor {
            let fd = predecessor.channel.0.as_fd();
            self.poll.add(fd, Source::Predecessor, Interest::READ)?;
            self.succession.predecessor = Some(predecessor);
        }
        let Some(path) = self.settings.administration.takeover_socket.clone() else {
            return Ok(());
        };
        let listener = match listen_for_successor(&path) {
            Ok(listener) => listener,
            // Nobody else serves any more: to end would be worse.
            Err(error) if self.succession.predecessor.is_some() => {
                tracing::error!(%error, "nobody can take over from this proxy");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let fd = listener.as_fd();
        self.poll.add(fd, Source::Takeover, Interest::READ)?;
        self.succession.listener = Some(listener);
        Ok(())
    }

    /// The file at which successors come is ours, and goes with us.
    pub(super) fn end_succession(&mut self) {
        if let (Some(_), Some(path)) = (
            self.succession.listener.take(),
            &self.settings.administration.takeover_socket,
        ) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// A successor has come: it gets our listeners, and we go on until it says that it can serve.
    pub(super) fn successor_comes(&mut self) {
        let Some(listener) = &self.succession.listener else {
            return;
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let Ok(fd) = accept4(listener.as_raw_fd(), flags) else {
            return;
        };
        // SAFETY: a new descriptor that is known here only.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let user = getsockopt(&fd, sockopt::PeerCredentials).map(|peer| peer.uid());
        let is_ours = user.is_ok_and(|uid| uid == 0 || uid == geteuid().as_raw());
        if !is_ours || self.succession.successor.is_some() {
            tracing::warn!(?user, "a successor is refused");
            return;
        }
        let channel = Channel(fd);
        let sent =
            self.listeners
                .iter()
                .zip(&self.addresses)
                .try_for_each(|(listener, address)| {
                    let own = sockets::own(listener.as_fd());
                    let address = own.map_or_else(|| address.clone(), Address::Inet);
                    channel.send(&Message::Listener(address), Some(listener))
                });
        let sent = sent.and_then(|()| channel.send(&Message::AllListeners, None));
        if let Err(error) = sent {
            tracing::error!(%error, "cannot hand the listeners over");
            return;
        }
        let added = self
            .poll
            .add(channel.0.as_fd(), Source::Successor, Interest::READ);
        if added.is_ok() {
            self.succession.successor = Some(channel);
        }
    }

    pub(super) fn successor_seen(&mut self) {
        while let Some(channel) = &self.succession.successor {
            match channel.receive() {
                Received::Message(Message::Ready, _) if !self.succession.is_leaving => {
                    self.begin_leaving();
                }
                Received::Message(Message::Cancel { number, secret }, _) => {
                    self.cancel(number, secret);
                }
                Received::Message(..) => {}
                Received::Nothing => return,
                // Clients that are still here stay until they leave.
                Received::End => self.succession.successor = None,
            }
        }
    }

    /// The successor serves all who come from now on.
    fn begin_leaving(&mut self) {
        self.succession.is_leaving = true;
        for listener in self
            .listeners
            .drain(..)
            .chain(self.succession.listener.take())
        {
            self.poll.remove(listener.as_fd());
        }
        // Their files are the successor's.
        self.addresses.clear();
        // First: the endpoint waits for a page else.
        self.pages = channel().0;
        self.metrics = None;
        if let Some(successor) = &self.succession.successor {
            let maps = self.kernel.as_mut().map(|kernel| {
                kernel.detach();
                kernel.ends()
            });
            let kept = self.succession.kept.iter().map(|fd| fd.as_fd());
            let kept_before = self.succession.predecessor.iter();
            let kept_before = kept_before
                .flat_map(|before| &before.kept)
                .map(|fd| fd.as_fd());
            for map in kept.chain(kept_before).chain(maps) {
                let _ = successor.send(&Message::Keep, Some(&map));
            }
            let _ = successor.send(&Message::Gone, None);
        }
        tracing::info!("another proxy has taken over");
        for number in 0..self.pools.len() as u32 {
            self.retire(number);
        }
        for id in self.clients.ids() {
            let client = self.clients.get(id);
            if client.is_some_and(|client| client.console.is_some()) {
                self.refuse(id, state::ADMIN_SHUTDOWN, "another proxy has taken over");
            } else {
                self.hand_over(id);
            }
        }
    }

    /// Those who could not be handed over before; without any we end.
    pub(super) fn go_on_leaving(&mut self) {
        if !self.succession.is_leaving {
            return;
        }
        for id in self.clients.ids() {
            self.hand_over(id);
        }
        self.ends |= self.clients.len() == 0 && self.succession.predecessor.is_none();
    }

    /// Hands a client over, if it is between two transactions, and all of it is known.
    pub(super) fn hand_over(&mut self, id: Id) {
        if !self.succession.is_leaving {
            return;
        }
        self.grab(id);
        let (Some(client), Some(successor)) = (self.clients.get(id), &self.succession.successor)
        else {
            return;
        };
        let is_whole = client.is_between() && client.input.is_empty() && !client.has_output();
        let is_alone = client.server.is_none() && client.waits.is_none() && !client.pinned;
        let is_plain = client.is_ready() && client.console.is_none() && client.shadow.is_none();
        let (Some(pool), false) = (client.pool, client.socket.has_tls()) else {
            return;
        };
        if !(is_whole && is_alone && is_plain) {
            return;
        }
        let key = &self.pools[pool as usize].key;
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let state = ClientState {
            user: client.user.clone(),
            database: key.database.clone(),
            options: key.options.clone(),
            parameters: client.parameters.iter().map(pair).collect(),
            statements: client.names.bodies(),
            number: client.number,
            secret: client.secret,
        };
        match successor.send(&Message::Client(state), Some(&client.socket)) {
            Ok(()) => {
                self.poll.remove(client.socket.as_fd());
                self.leave(id);
            }
            // It has no room now, or the client has too many statements: it stays for a while, or until it leaves.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::InvalidInput
                ) => {}
            Err(_) => self.succession.successor = None,
        }
    }

    pub(super) fn predecessor_seen(&mut self) {
        while let Some(predecessor) = &self.succession.predecessor {
            match predecessor.channel.receive() {
                Received::Message(Message::Client(state), Some(fd)) => self.adopt(state, fd),
                Received::Message(..) => {}
                Received::Nothing => return,
                Received::End => {
                    // It has no clients any more.
                    let before = self.succession.predecessor.take();
                    let kept = before.map(|before| before.kept).unwrap_or_default();
                    self.succession.kept.extend(kept);
                }
            }
        }
    }

    /// A client of the predecessor, as it was there.
    fn adopt(&mut self, from: ClientState, fd: OwnedFd) {
        let address = sockets::peer(fd.as_fd()).map(|peer| peer.ip());
        let mut client = Client::new(fd, address, from.secret);
        client.number = from.number;
        client.user.clone_from(&from.user);
        for (name, value) in &from.parameters {
            client.parameters.set(name, value);
        }
        for (name, body) in from.statements {
            let query = text::split(&body).map_or(&body[..], |(query, _)| query);
            let is_whole = query.len() <= hint::LOOKED_AT;
            let hint = Hint::of(&query[..query.len().min(hint::LOOKED_AT)], is_whole);
            let statement = self.texts.statement(&body, hint);
            client.names.set(&name, Some(statement));
        }
        client.stage = Stage::Ready;
        let id = self.clients.insert(client);
        let fd = self.clients[id].socket.as_fd();
        if let Err(error) = self.poll.add(fd, Source::Client(id), Interest::READ) {
            tracing::error!(%error, "a client cannot be served");
            self.clients.remove(id);
            return;
        }
        let pool = self.pool(Key {
            database: from.database,
            user: from.user,
            options: from.options,
            is_mirror: false,
        });
        match pool {
            Ok(number) => {
                let pool = &mut self.pools[number as usize];
                pool.clients += 1;
                let client = &mut self.clients[id];
                (client.pool, client.mode) = (Some(number), pool.mode);
                self.hand_over(id);
            }
            Err((state, told)) => self.refuse(id, state, &told),
        }
    }

    /// A request to cancel what a client of the predecessor does.
    pub(super) fn cancel_there(&self, number: i32, secret: i32) {
        if let Some(predecessor) = &self.succession.predecessor {
            let message = Message::Cancel { number, secret };
            let _ = predecessor.channel.send(&message, None);
        }
    }
}
