//! Sockets that do not block.

use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bytes::{Buf, BytesMut};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr, bind,
    connect as connect_to, getpeername, getsockname, getsockopt, listen as listen_on, setsockopt,
    socket, sockopt,
};

use nix::unistd::{Uid, User};

use crate::error::{Result, system};
use crate::io::alive::KeepAlive;

/// Where a database is, or a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Inet(SocketAddr),
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

fn stream(family: AddressFamily) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(family, SockType::Stream, flags, None)?;
    if family != AddressFamily::Unix {
        setsockopt(&fd, sockopt::TcpNoDelay, &true)?;
    }
    Ok(fd)
}

fn family(address: &SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn unix(path: &Path) -> nix::Result<UnixAddr> {
    UnixAddr::new(path)
}

/// Connections that wait to be accepted, at most.
const BACKLOG: i32 = 1024;

pub(crate) fn listen(address: &Address) -> Result<OwnedFd> {
    let made = || -> nix::Result<OwnedFd> {
        let fd = match address {
            Address::Inet(address) => {
                let fd = stream(family(address))?;
                setsockopt(&fd, sockopt::ReuseAddr, &true)?;
                if address.is_ipv6() {
                    // As PostgreSQL: what is of IPv4 has a listener of its own.
                    setsockopt(&fd, sockopt::Ipv6V6Only, &true)?;
                }
                bind(fd.as_raw_fd(), &SockaddrStorage::from(*address))?;
                fd
            }
            Address::Unix(path) => {
                let fd = stream(AddressFamily::Unix)?;
                // A proxy that was killed has left it.
                remove_file(path);
                bind(fd.as_raw_fd(), &unix(path)?)?;
                // As PostgreSQL: passwords and rules decide about admission.
                std::fs::set_permissions(path, Permissions::from_mode(0o777))
                    .map_err(|error| nix::Error::from_raw(error.raw_os_error().unwrap_or(0)))?;
                fd
            }
        };
        listen_on(&fd, Backlog::new(BACKLOG)?)?;
        Ok(fd)
    };
    made().map_err(system(format!("listen on {address}")))
}

/// Removes the file of a socket. What is none stays, and no socket can be bound there.
pub(crate) fn remove_file(path: &Path) {
    let found = std::fs::symlink_metadata(path);
    if found.is_ok_and(|found| found.file_type().is_socket()) {
        let _ = std::fs::remove_file(path);
    }
}

/// The users that may connect to a Unix socket, as the mode of its file.
pub(crate) fn set_mode(address: &Address, mode: u32) -> Result<()> {
    let Address::Unix(path) = address else {
        return Ok(());
    };
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, mode).map_err(system(format!("set the mode of {address}")))
}

/// Begins to connect: the socket becomes writable when that has succeeded or failed.
pub(crate) fn connect(address: &Address, keep_alive: &KeepAlive) -> io::Result<OwnedFd> {
    let begun = |fd: OwnedFd, address: &dyn SockaddrLike| match connect_to(fd.as_raw_fd(), address)
    {
        Ok(()) | Err(nix::Error::EINPROGRESS) => Ok(fd),
        Err(error) => Err(error.into()),
    };
    match address {
        Address::Inet(address) => {
            let fd = stream(family(address))?;
            keep_alive.apply(&fd)?;
            begun(fd, &SockaddrStorage::from(*address))
        }
        Address::Unix(path) => begun(stream(AddressFamily::Unix)?, &unix(path)?),
    }
}

/// Why it could not connect, if it could not.
pub(crate) fn take_error(fd: BorrowedFd<'_>) -> io::Result<()> {
    match getsockopt(&fd, sockopt::SocketError)? {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// The next connection, if there is one.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    // SAFETY: no address is asked for.
    let fd = unsafe {
        libc::accept4(
            listener.as_raw_fd(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
        )
    };
    if fd >= 0 {
        // SAFETY: a new descriptor that is known here only.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // Fails for a Unix socket, which has no such delay.
        let _ = setsockopt(&fd, sockopt::TcpNoDelay, &true);
        return Ok(Some(fd));
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        ErrorKind::WouldBlock => Ok(None),
        // It was gone before we came.
        ErrorKind::ConnectionAborted | ErrorKind::Interrupted => accept(listener),
        _ => Err(error),
    }
}

pub(crate) fn peer(fd: BorrowedFd<'_>) -> Option<SocketAddr> {
    inet(getpeername(fd.as_raw_fd()).ok()?)
}

pub(crate) fn own(fd: BorrowedFd<'_>) -> Option<SocketAddr> {
    inet(getsockname(fd.as_raw_fd()).ok()?)
}

/// The name of the user at the other end of a Unix socket.
pub(crate) fn peer_user(socket: &impl AsFd) -> Option<String> {
    let peer = getsockopt(&socket.as_fd(), sockopt::PeerCredentials).ok()?;
    let user = User::from_uid(Uid::from_raw(peer.uid())).ok()??;
    Some(user.name)
}

fn inet(address: SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|&a| SocketAddr::V4(a.into()));
    v4.or_else(|| address.as_sockaddr_in6().map(|&a| SocketAddr::V6(a.into())))
}

/// What came of a `recv()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// `more`: there may be more, of which no event tells.
    Bytes { count: usize, more: bool },
    /// Nothing now.
    Nothing,
    /// The other end is closed, or broken.
    End,
}

/// Bytes that one `recv()` takes, at most.
pub(crate) const CHUNK: usize = 64 * 1024;

/// Appends what has arrived.
pub(crate) fn receive(fd: BorrowedFd<'_>, buffer: &mut BytesMut) -> Received {
    buffer.reserve(CHUNK);
    let spare = buffer.spare_capacity_mut();
    let room = spare.len().min(CHUNK);
    loop {
        // SAFETY: the room is there.
        let got = unsafe {
            libc::recv(
                fd.as_raw_fd(),
                spare.as_mut_ptr().cast(),
                room,
                libc::MSG_DONTWAIT,
            )
        };
        match usize::try_from(got) {
            Ok(0) => return Received::End,
            Ok(count) => {
                // SAFETY: the kernel has written so many.
                unsafe { buffer.set_len(buffer.len() + count) };
                let more = count == room;
                return Received::Bytes { count, more };
            }
            Err(_) => match io::Error::last_os_error().kind() {
                ErrorKind::WouldBlock => return Received::Nothing,
                ErrorKind::Interrupted => {}
                _ => return Received::End,
            },
        }
    }
}

/// Sends as much as can be sent now; how much. An error: the other end is gone.
pub(crate) fn send(fd: BorrowedFd<'_>, buffer: &mut BytesMut) -> io::Result<usize> {
    let mut all = 0;
    while !buffer.is_empty() {
        // SAFETY: the bytes are as many as their length.
        let sent = unsafe {
            libc::send(
                fd.as_raw_fd(),
                buffer.as_ptr().cast(),
                buffer.len(),
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        match usize::try_from(sent) {
            Ok(sent) => {
                buffer.advance(sent);
                all += sent;
            }
            Err(_) => {
                let error = io::Error::last_os_error();
                match error.kind() {
                    ErrorKind::WouldBlock => break,
                    ErrorKind::Interrupted => {}
                    _ => return Err(error),
                }
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_socket_that_connects_is_as_set() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = Address::Inet(listener.local_addr().expect("its address"));
        let set = KeepAlive {
            idle: 7,
            interval: 3,
            count: 2,
            user_timeout: 4500,
            ..KeepAlive::default()
        };
        let socket = connect(&address, &set).expect("begun");
        assert!(getsockopt(&socket, sockopt::KeepAlive).expect("read"));
        assert_eq!(getsockopt(&socket, sockopt::TcpKeepIdle), Ok(7));
        assert_eq!(getsockopt(&socket, sockopt::TcpKeepInterval), Ok(3));
        assert_eq!(getsockopt(&socket, sockopt::TcpKeepCount), Ok(2));
        assert_eq!(getsockopt(&socket, sockopt::TcpUserTimeout), Ok(4500));
        let off = KeepAlive {
            is_on: false,
            ..set
        };
        let socket = connect(&address, &off).expect("begun");
        assert!(!getsockopt(&socket, sockopt::KeepAlive).expect("read"));
    }
}
