//! A proxy takes the place of another one: what it gets from that ([`crate::takeover`]).
//!
//! Everything that may fail is done before the predecessor is told that its successor will serve. What the kernel has
//! brought to a client and the client has not read is in a map of the predecessor's. So the successor keeps that
//! map.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::geteuid;

use super::Proxy;
use crate::auth::scram::Keys;
use crate::client::{Client, Stage};
use crate::error::{Error, Result, system};
use crate::io::poll::{Interest, Source};
use crate::io::slab::Id;
use crate::io::socket::{self as sockets, Address};
use crate::pool::Key;
use crate::takeover::{CancelKey, Channel, ClientState, Message, Received, Said, Secret, VERSION};
use crate::wire::assignment::Assignment;
use crate::wire::hint::{self, Hint};
use crate::wire::text;

/// An answer of the predecessor takes no longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Writable for the group, or for all.
const OTHERS_WRITE: u32 = 0o022;
/// Only owners remove files of such a folder.
const STICKY: u32 = 0o1000;

/// The proxy whose place this one takes.
#[derive(Debug)]
pub(super) struct Predecessor {
    channel: Channel,
    /// Those that were not taken yet.
    listeners: Vec<(Address, OwnedFd)>,
    /// Where successors come.
    takeover: Option<OwnedFd>,
    /// Maps that clients of it still have something in.
    pub(super) kept: Vec<OwnedFd>,
    pub(super) held: Said,
}

/// What came of a client of another proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adoption {
    Served(Id),
    /// It has heard why it is not.
    Refused,
    /// Nothing was done with it.
    Failed,
}

/// Is the other end this process's user, or root?
pub(super) fn is_ours(fd: &OwnedFd) -> bool {
    let peer = getsockopt(fd, sockopt::PeerCredentials);
    peer.is_ok_and(|peer| is_own(peer.uid()))
}

fn is_own(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

/// Can no other user put a socket where successors look for one?
fn check_folder(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => Path::new("/"),
    };
    let found = fs::metadata(folder).map_err(system(format!("look at {}", folder.display())))?;
    let mode = found.permissions().mode();
    let is_open = mode & OTHERS_WRITE != 0 && mode & STICKY == 0;
    if is_open || !is_own(found.uid()) {
        let folder = folder.display();
        let told =
            format!("takeover_socket: {folder} is another user's, or others may write to it");
        return Err(Error::Settings(told));
    }
    Ok(())
}

impl Predecessor {
    /// The proxy at this socket, with its listeners; `None`: there is none.
    pub(super) fn find(path: &Path) -> Result<Option<Self>> {
        check_folder(path)?;
        let failed = || system(format!("take over at {}", path.display()));
        let kind = (AddressFamily::Unix, SockType::SeqPacket);
        let fd = socket(kind.0, kind.1, SockFlag::SOCK_CLOEXEC, None).map_err(failed())?;
        let address = UnixAddr::new(path).map_err(failed())?;
        match connect(fd.as_raw_fd(), &address) {
            Ok(()) => {}
            Err(nix::Error::ENOENT | nix::Error::ECONNREFUSED) => return Ok(None),
            Err(error) => return Err(failed()(error)),
        }
        if !is_ours(&fd) {
            let told = "the proxy at takeover_socket is another user's";
            return Err(Error::Settings(told.into()));
        }
        let limit = TimeVal::seconds(PATIENCE.as_secs() as i64);
        setsockopt(&fd, sockopt::ReceiveTimeout, &limit).map_err(failed())?;
        let mut predecessor = Self {
            channel: Channel(fd),
            listeners: Vec::new(),
            takeover: None,
            kept: Vec::new(),
            held: Said::default(),
        };
        predecessor.get_listeners()?;
        Ok(Some(predecessor))
    }

    fn get_listeners(&mut self) -> Result<()> {
        match self.answer()? {
            (Message::Hello { version: VERSION }, None) => {}
            (Message::Hello { version }, None) => {
                let told = format!(
                    "the proxy at takeover_socket hands over by version {version}, and this one takes over by {VERSION}"
                );
                return Err(Error::Settings(told));
            }
            _ => return Err(unexpected()),
        }
        loop {
            match self.answer()? {
                (Message::Listener(address), Some(fd)) => self.listeners.push((address, fd)),
                (Message::Takeover, Some(fd)) => self.takeover = Some(fd),
                (Message::AllListeners, None) => return Ok(()),
                _ => return Err(unexpected()),
            }
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.channel.0.as_fd()
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

    /// Where successors come, which is its file, too.
    pub(super) fn takeover_listener(&mut self) -> Option<OwnedFd> {
        self.takeover.take()
    }

    /// This proxy can serve. When this returns the predecessor accepts no client, and goes on if it hears no more.
    pub(super) fn prepare(&mut self) -> Result<()> {
        let ready = Message::Ready { version: VERSION };
        let sent = self.channel.send(&ready, None);
        sent.map_err(system("take over"))?;
        loop {
            match self.answer()? {
                (Message::Keep, Some(fd)) => self.kept.push(fd),
                (Message::Held(held), None) => self.held = held,
                (Message::Prepared, None) => return Ok(()),
                _ => return Err(unexpected()),
            }
        }
    }

    /// This proxy will serve. Clients come from then on.
    ///
    /// # Errors
    /// The predecessor has gone on, or is gone: this proxy has taken nothing.
    fn take(&mut self) -> Result<()> {
        let flags = FcntlArg::F_SETFL(OFlag::O_NONBLOCK);
        let sent = self.channel.send(&Message::Taken, None);
        sent.map_err(system("take over"))?;
        // From here on nothing may fail: the predecessor will serve no other client.
        match self.answer() {
            Ok((Message::Gone, None)) => {}
            Ok(_) | Err(_) => tracing::warn!("the predecessor does not say that it has gone"),
        }
        if let Err(error) = fcntl(&self.channel.0, flags) {
            tracing::error!(%error, "clients of the predecessor stay with it");
        }
        // Those that the settings do not name any more would take connections, and accept none.
        self.listeners.clear();
        tracing::info!("this proxy has taken over");
        Ok(())
    }
}

fn unexpected() -> Error {
    Error::Settings("the proxy at takeover_socket does not answer as it should".into())
}

impl Proxy {
    /// Takes over from the predecessor, if there is one; that is the last thing that may fail.
    ///
    /// # Errors
    /// The predecessor goes on.
    pub(super) fn take_over(&mut self) -> Result<()> {
        let Some(predecessor) = &mut self.succession.predecessor else {
            return Ok(());
        };
        predecessor.take()?;
        let held = std::mem::take(&mut predecessor.held);
        self.held = held.into();
        self.change_as_said();
        self.hold_pools();
        Ok(())
    }

    pub(super) fn predecessor_seen(&mut self) {
        while let Some(predecessor) = &self.succession.predecessor {
            match predecessor.channel.receive() {
                Received::Message(Message::Client(state), Some(fd)) => {
                    let key = state.key;
                    let adoption = self.adopt(*state, fd);
                    self.answer_predecessor(&match adoption {
                        Adoption::Failed => Message::Stays(key),
                        Adoption::Served(_) | Adoption::Refused => Message::Adopted(key),
                    });
                    if let Adoption::Served(id) = adoption {
                        self.hand_over(id);
                    }
                }
                Received::Message(Message::Client(state), None) => {
                    tracing::error!("there is no descriptor for a client of the predecessor");
                    self.answer_predecessor(&Message::Stays(state.key));
                }
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

    fn answer_predecessor(&self, answer: &Message) {
        if let Some(predecessor) = &self.succession.predecessor {
            // It awaits few answers at a time: there is room. If it is gone, its client is not any more.
            let _ = predecessor.channel.send(answer, None);
        }
    }

    /// A client as it was elsewhere.
    pub(super) fn adopt(&mut self, from: ClientState, fd: OwnedFd) -> Adoption {
        let address = sockets::peer(fd.as_fd()).map(|peer| peer.ip());
        let mut client = Client::new(fd, address, from.key.secret);
        client.number = from.key.number;
        self.last_number = self.last_number.max(client.number);
        client.is_adopted = true;
        client.user.clone_from(&from.user);
        for (name, value) in &from.parameters {
            client.parameters.set(name, value);
        }
        for (name, value) in &from.followed {
            let text = format!("SET {name} TO {value}");
            if let Some(assignment) = Assignment::of(text.as_bytes()) {
                client.parameters.follow(assignment);
            }
        }
        for (name, body) in &from.statements {
            let query = text::split(body).map_or(&body[..], |(query, _)| query);
            let is_whole = query.len() <= hint::LOOKED_AT;
            let hint = Hint::of(&query[..query.len().min(hint::LOOKED_AT)], is_whole);
            let statement = self
                .texts
                .statement(body, hint, None, &client.parameters.of_texts());
            client.names.set(name, Some(statement));
        }
        client.stage = Stage::Ready;
        let id = self.clients.insert(client);
        let fd = self.clients[id].socket.as_fd();
        if let Err(error) = self.poll.add(fd, Source::Client(id), Interest::READ) {
            tracing::error!(%error, "a client cannot be adopted");
            self.clients.remove(id);
            return Adoption::Failed;
        }
        let pool = self.pool_of(Key {
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
                self.learn(number, from.password.as_ref(), from.keys.as_ref());
                Adoption::Served(id)
            }
            Err((state, told)) => {
                self.refuse(id, state, &told);
                Adoption::Refused
            }
        }
    }

    /// By which a pool's servers let it in, where nothing newer is known.
    fn learn(&mut self, pool: u32, password: Option<&Secret>, keys: Option<&(Secret, Secret)>) {
        let pool = &self.pools[pool as usize];
        let Some(whose) = self.whose(&pool.key.database, pool.user()) else {
            return;
        };
        if let Some((client, server)) = keys {
            let keys = || Keys::of(&client.0, &server.0);
            self.keys.entry(whose.clone()).or_insert_with(keys);
        }
        let password = password.and_then(|password| str::from_utf8(&password.0).ok());
        if let Some(password) = password.filter(|_| self.secrets.last(&whose).is_none()) {
            // Clients that come are to prove what the database says then.
            let until = Instant::now();
            self.secrets.put(whose, Some(password.to_owned()), until);
        }
    }

    /// A request to cancel what a client of the predecessor does.
    pub(super) fn cancel_there(&self, number: i32, secret: i32) {
        let key = CancelKey { number, secret };
        self.answer_predecessor(&Message::Cancel(key));
    }

    /// Maps of former proxies are kept for clients that were theirs only.
    pub(super) fn drop_kept(&mut self) {
        if self.succession.kept.is_empty() || self.succession.predecessor.is_some() {
            return;
        }
        let is_adopted = |id: &Id| self.clients[*id].is_adopted;
        if !self.clients.ids().iter().any(is_adopted) {
            self.succession.kept.clear();
        }
    }
}
