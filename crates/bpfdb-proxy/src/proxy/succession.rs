//! A proxy gives its place to another one, and drops no client ([`crate::takeover`]).
//!
//! The successor gets the listeners, so that no connection is refused meanwhile, and each client when it is between
//! two transactions and keeps no server. A client that cannot be handed over (TLS, sessions with state) is served by the
//! predecessor until it leaves; then that ends. Each process has servers of its own.
//!
//! 1. Until the successor has said that it serves (Taken), everything can be taken back: the listeners are kept.
//! 2. A client that was sent is this proxy's until the successor has it (Adopted): it has a copy of its connection,
//!    which nothing is read from.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, Backlog, Shutdown, SockFlag, SockType, UnixAddr, accept4, bind, listen,
    shutdown, socket,
};
use rustc_hash::FxHashMap;

use super::Proxy;
use super::predecessor::{Adoption, Predecessor, is_ours};
use crate::error::{Result, system};
use crate::io::poll::{Interest, Source};
use crate::io::slab::Id;
use crate::io::socket::{self as sockets, Address};
use crate::takeover::{CancelKey, Channel, ClientState, Message, Received, Secret, VERSION};
use crate::wire::reply::state;

/// A successor that has come can serve within this time.
const LOAD_TIME: Duration = Duration::from_secs(60);
/// It says that it serves within this time after it could.
const PATIENCE: Duration = Duration::from_secs(10);
/// Clients that were sent, and not answered, at most.
const HANDED_MAX: usize = 64;
/// No client is sent for so long after one that the successor could not adopt.
const REST: Duration = Duration::from_secs(1);
/// A client stays for so long if its mirror has not done what the client has sent.
const MIRROR_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Successor {
    channel: Channel,
    since: Instant,
    /// It can serve: this proxy accepts no client until it says that it does.
    is_prepared: bool,
}

#[derive(Debug, Default)]
pub(super) struct Succession {
    /// Where a successor comes.
    listener: Option<OwnedFd>,
    /// It has come.
    successor: Option<Successor>,
    /// It has taken over.
    pub(super) is_leaving: bool,
    left_at: Option<Instant>,
    /// Clients that were sent to it, until it answers.
    handed: FxHashMap<CancelKey, (ClientState, OwnedFd)>,
    rests_until: Option<Instant>,
    pub(super) predecessor: Option<Predecessor>,
    pub(super) kept: Vec<OwnedFd>,
}

impl Succession {
    /// Is a successor about to take the listeners?
    pub(super) fn is_prepared(&self) -> bool {
        let successor = self.successor.as_ref();
        !self.is_leaving && successor.is_some_and(|successor| successor.is_prepared)
    }
}

/// Where successors come: only those of our user, or root.
fn listen_for_successor(path: &Path) -> Result<OwnedFd> {
    let failed = || system(format!("listen at {}", path.display()));
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).map_err(failed())?;
    // That of one that was killed.
    sockets::remove_file(path);
    bind(fd.as_raw_fd(), &UnixAddr::new(path).map_err(failed())?).map_err(failed())?;
    sockets::set_mode(&Address::Unix(path.to_owned()), 0o600)?;
    let one = Backlog::new(1).map_err(failed())?;
    listen(&fd, one).map_err(failed())?;
    Ok(fd)
}

impl Proxy {
    /// Has another proxy come to follow this one?
    pub(super) fn has_successor(&self) -> bool {
        self.succession.successor.is_some()
    }

    /// Waits for clients of the predecessor, and for a successor.
    ///
    /// # Errors
    /// The system does not wait for them.
    pub(super) fn begin_succession(&mut self, predecessor: Option<Predecessor>) -> Result<()> {
        let mut taken = None;
        if let Some(mut predecessor) = predecessor {
            self.poll
                .add(predecessor.fd(), Source::Predecessor, Interest::READ)?;
            taken = predecessor.takeover_listener();
            self.succession.predecessor = Some(predecessor);
        }
        let Some(path) = &self.settings.administration.takeover_socket else {
            return Ok(());
        };
        let listener = taken.map_or_else(|| listen_for_successor(path), Ok)?;
        let fd = listener.as_fd();
        self.poll.add(fd, Source::Takeover, Interest::READ)?;
        self.succession.listener = Some(listener);
        Ok(())
    }

    /// The proxy ends: no proxy can take over any more. The file at which successors come goes, too, unless one has it.
    pub(super) fn end_succession(&mut self) {
        self.end_successor();
        // Those that it has are its own.
        self.succession.handed.clear();
        if let (Some(_), Some(path)) = (
            self.succession.listener.take(),
            &self.settings.administration.takeover_socket,
        ) {
            sockets::remove_file(path);
        }
    }

    /// A successor has come: it gets our listeners, and we go on until it says that it serves.
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
        if !is_ours(&fd) || self.succession.successor.is_some() {
            tracing::warn!("a successor is refused: another user's, or another one has come");
            return;
        }
        let channel = Channel(fd);
        if let Err(error) = self.send_listeners(&channel, listener) {
            tracing::error!(%error, "cannot hand the listeners over");
            return;
        }
        let fd = channel.0.as_fd();
        if let Err(error) = self.poll.add(fd, Source::Successor, Interest::READ) {
            tracing::error!(%error, "cannot hand the listeners over");
            return;
        }
        self.succession.successor = Some(Successor {
            channel,
            since: Instant::now(),
            is_prepared: false,
        });
    }

    fn send_listeners(&self, channel: &Channel, takeover: &OwnedFd) -> io::Result<()> {
        channel.send(&Message::Hello { version: VERSION }, None)?;
        for (listener, address) in self.listeners.iter().zip(&self.addresses) {
            let own = sockets::own(listener.as_fd());
            let address = own.map_or_else(|| address.clone(), Address::Inet);
            channel.send(&Message::Listener(address), Some(listener))?;
        }
        channel.send(&Message::Takeover, Some(takeover))?;
        channel.send(&Message::AllListeners, None)
    }

    pub(super) fn successor_seen(&mut self) {
        while let Some(successor) = &self.succession.successor {
            let is_prepared = successor.is_prepared;
            match successor.channel.receive() {
                Received::Message(Message::Ready { version: VERSION }, _) if !is_prepared => {
                    self.prepare_to_leave();
                }
                Received::Message(Message::Ready { version }, _) => {
                    tracing::warn!(
                        version,
                        "a successor is of another version, or does not know what it does"
                    );
                    self.successor_is_gone();
                }
                Received::Message(Message::Taken, _) if self.succession.is_prepared() => {
                    self.begin_leaving();
                }
                Received::Message(Message::Adopted(key), _) => {
                    self.succession.handed.remove(&key);
                    if self.succession.handed.is_empty() {
                        self.hand_all_over();
                    }
                }
                Received::Message(Message::Stays(key), _) => {
                    tracing::warn!("the successor cannot adopt a client");
                    self.succession.rests_until = Some(Instant::now() + REST);
                    self.take_back(key);
                }
                Received::Message(Message::Cancel(key), _) => {
                    self.cancel(key.number, key.secret, None)
                }
                Received::Message(..) => {}
                Received::Nothing => return,
                Received::End => self.successor_is_gone(),
            }
        }
    }

    /// The successor can serve. Until it says that it does no client is accepted, and nothing is given up.
    fn prepare_to_leave(&mut self) {
        let sent = match &self.succession.successor {
            Some(successor) => self.send_held(&successor.channel),
            None => return,
        };
        if let Err(error) = sent {
            tracing::error!(%error, "cannot hand over");
            return self.successor_is_gone();
        }
        if let Some(successor) = &mut self.succession.successor {
            (successor.is_prepared, successor.since) = (true, Instant::now());
        }
        self.wait_for_listeners(Interest::default());
    }

    fn send_held(&self, channel: &Channel) -> io::Result<()> {
        let maps = self.kernel.as_ref().map(|kernel| kernel.ends());
        let kept = self.succession.kept.iter();
        let before = self.succession.predecessor.iter();
        let kept = kept.chain(before.flat_map(|before| &before.kept));
        for map in kept.map(|fd| fd.as_fd()).chain(maps) {
            channel.send(&Message::Keep, Some(&map))?;
        }
        let mut held = self.held.to_hand_over();
        // It is this proxy that ends then.
        held.all_paused &= !self.ending.pauses();
        channel.send(&Message::Held(held), None)?;
        channel.send(&Message::Prepared, None)
    }

    /// A successor that has not taken over is given up, unless it has done so by now.
    fn end_successor(&mut self) {
        self.successor_seen();
        if self.succession.is_leaving {
            return;
        }
        if let Some(successor) = &self.succession.successor {
            // What it sends from now on fails there.
            let _ = shutdown(successor.channel.0.as_raw_fd(), Shutdown::Read);
            self.successor_seen();
        }
    }

    fn successor_is_gone(&mut self) {
        let was_prepared = self.succession.is_prepared();
        self.succession.successor = None;
        if self.succession.is_leaving {
            // Clients that are still here stay until they leave.
            let keys: Vec<CancelKey> = self.succession.handed.keys().copied().collect();
            for key in keys {
                self.take_back(key);
            }
        } else {
            tracing::warn!("a successor has not taken over: this proxy goes on");
        }
        if was_prepared {
            self.wait_for_listeners(Interest::READ);
        }
    }

    /// The successor serves all that come from now on.
    fn begin_leaving(&mut self) {
        self.succession.is_leaving = true;
        self.succession.left_at = Some(Instant::now());
        self.forget_listeners();
        if let Some(listener) = self.succession.listener.take() {
            self.poll.remove(listener.as_fd());
        }
        // Their files are the successor's.
        self.addresses.clear();
        // First: the endpoint waits for a page else.
        self.pages = channel().0;
        (self.metrics, self.asker) = (None, None);
        if let Some(kernel) = &mut self.kernel {
            kernel.detach();
        }
        if let Some(successor) = &self.succession.successor
            && let Err(error) = successor.channel.send(&Message::Gone, None)
        {
            tracing::warn!(%error, "the successor does not hear that this proxy has gone");
        }
        tracing::info!("another proxy has taken over");
        for number in 0..self.pools.len() as u32 {
            self.retire(number);
        }
        for id in self.clients.ids() {
            let client = self.clients.get(id);
            if client.is_some_and(|client| client.console.is_some()) {
                self.refuse(id, state::ADMIN_SHUTDOWN, "another proxy has taken over");
            }
        }
        self.hand_all_over();
    }

    /// Those that could not be handed over before; without any we end. A successor that says nothing is given up.
    pub(super) fn go_on_leaving(&mut self) {
        self.drop_kept();
        if !self.succession.is_leaving {
            let is_late = |successor: &Successor| {
                let limit = if successor.is_prepared {
                    PATIENCE
                } else {
                    LOAD_TIME
                };
                successor.since.elapsed() >= limit
            };
            if self.succession.successor.as_ref().is_some_and(is_late) {
                self.end_successor();
            }
            return;
        }
        self.hand_all_over();
        self.ends |= self.clients.len() == 0
            && self.succession.handed.is_empty()
            && self.succession.predecessor.is_none();
    }

    fn hand_all_over(&mut self) {
        for id in self.clients.ids() {
            if self.succession.handed.len() >= HANDED_MAX {
                return;
            }
            self.hand_over(id);
        }
    }

    /// Hands a client over, if it is between two transactions, and all of it is known.
    pub(super) fn hand_over(&mut self, id: Id) {
        let rests = self.succession.rests_until;
        if !self.succession.is_leaving
            || self.succession.handed.len() >= HANDED_MAX
            || rests.is_some_and(|until| Instant::now() < until)
        {
            return;
        }
        self.grab(id);
        if !self.can_go(id) || !self.is_mirror_done(id) {
            return;
        }
        let (Some(client), Some(successor)) = (self.clients.get(id), &self.succession.successor)
        else {
            return;
        };
        let Some(state) = self.state_of(id) else {
            return;
        };
        let copy = match client.socket.as_fd().try_clone_to_owned() {
            Ok(copy) => copy,
            Err(error) => {
                tracing::warn!(%error, "a client cannot be handed over");
                self.succession.rests_until = Some(Instant::now() + REST);
                return;
            }
        };
        let (key, message) = (state.key, Message::Client(Box::new(state)));
        match successor.channel.send(&message, Some(&copy)) {
            Ok(()) => {
                self.poll.remove(client.socket.as_fd());
                if let Message::Client(state) = message {
                    self.succession.handed.insert(key, (*state, copy));
                }
                self.leave(id);
            }
            // It has no room now, or the client has too many statements: it stays for a while, or until it leaves.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::InvalidInput
                ) => {}
            Err(_) => self.successor_is_gone(),
        }
    }

    fn can_go(&self, id: Id) -> bool {
        let Some(client) = self.clients.get(id) else {
            return false;
        };
        let is_whole = client.is_between() && client.input.is_empty() && !client.has_output();
        let is_alone = client.server.is_none() && client.waits.is_none() && !client.pinned;
        let is_plain = client.is_ready() && client.console.is_none() && client.shadow.is_none();
        is_whole && is_alone && is_plain && !client.socket.has_tls()
    }

    /// Has the mirror done what a client has sent? At the successor the client has another session there, which would
    /// overtake this one. A mirror that takes too long has lost the rest.
    fn is_mirror_done(&mut self, id: Id) -> bool {
        let shadow = self
            .clients
            .get(id)
            .and_then(|client| client.mirrored.shadow);
        let behind =
            shadow.filter(|shadow| self.clients.get(*shadow).is_some() && self.is_behind(*shadow));
        let Some(shadow) = behind else {
            return true;
        };
        let left_at = self.succession.left_at;
        let is_late = left_at.is_some_and(|left_at| left_at.elapsed() >= MIRROR_PATIENCE);
        if is_late {
            self.leave(shadow);
        }
        is_late
    }

    /// What the successor is to know of a client.
    fn state_of(&self, id: Id) -> Option<ClientState> {
        let client = self.clients.get(id)?;
        let pool = &self.pools[client.pool? as usize];
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let whose = self.whose(&pool.key.database, pool.user());
        let password = whose.as_ref().and_then(|whose| self.secrets.last(whose));
        let keys = whose.as_ref().and_then(|whose| self.keys.get(whose));
        let keys = keys.map(|keys| keys.parts().map(Secret::of));
        Some(ClientState {
            user: client.user.clone(),
            database: pool.key.database.clone(),
            options: pool.key.options.clone(),
            parameters: client.parameters.iter().map(pair).collect(),
            followed: client.parameters.followed().map(pair).collect(),
            statements: client.names.bodies(),
            key: CancelKey {
                number: client.number,
                secret: client.secret,
            },
            password: password.map(|password| Secret::of(password.as_bytes())),
            keys: keys.map(|[client, server]| (client, server)),
        })
    }

    /// A client that was sent is not the successor's: it is served here.
    fn take_back(&mut self, key: CancelKey) {
        let Some((state, fd)) = self.succession.handed.remove(&key) else {
            return;
        };
        if self.adopt(state, fd) == Adoption::Failed {
            tracing::error!("a client that was not adopted is lost");
        }
    }
}
