//! The Unix-domain socket. Its connections are never in the kernel's hands:
//! the daemon answers them, on sessions of the engine like any other.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, connect, socket};

use crate::error::{Result, system};
use crate::io::socket::start_listening;

/// A listener. Dropping it removes its file.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Permissions 0: as the umask leaves them. No client can connect before the file has them.
    pub(crate) fn bind(path: &Path, permissions: u32, backlog: u32) -> Result<Self> {
        let listener = Self::closed(path, permissions)?;
        start_listening(&listener.socket, path.display(), backlog)?;
        tracing::info!(path = %path.display(), "listening");
        Ok(listener)
    }

    /// One that refuses clients still: its file has its permissions first.
    fn closed(path: &Path, permissions: u32) -> Result<Self> {
        let action = || format!("listen on {}", path.display());
        remove_left_over(path).map_err(system(action()))?;
        let socket = bound(path).map_err(system(action()))?;
        let listener = Self {
            socket,
            path: path.to_owned(),
        };
        if permissions != 0 {
            fs::set_permissions(path, Permissions::from_mode(permissions))
                .map_err(system(action()))?;
        }
        Ok(listener)
    }

    /// The next connection, if there is one.
    pub(crate) fn accept(&self) -> io::Result<Option<OwnedFd>> {
        match self.socket.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true)?;
                Ok(Some(stream.into()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the socket");
        }
    }
}

/// A socket with this path, not listening yet.
fn bound(path: &Path) -> io::Result<UnixListener> {
    let socket = unconnected()?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket.into())
}

/// A socket that waits for nothing.
fn unconnected() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socket(AddressFamily::Unix, SockType::Stream, flags, None)?)
}

/// The file of a server that was killed: a socket without a listener.
fn remove_left_over(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket && is_refused(path)? {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Is there no listener? A server that is stopped, and whose backlog is full, is one.
fn is_refused(path: &Path) -> io::Result<bool> {
    let connected = connect(unconnected()?.as_raw_fd(), &UnixAddr::new(path)?);
    Ok(connected == Err(Errno::ECONNREFUSED))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else everybody could connect for a moment.
    #[test]
    fn clients_are_refused_until_the_file_has_its_permissions() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = Listener::closed(&path, 0o640).expect("bound");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(is_refused(&path).expect("asked"), "it listens already");
        start_listening(&listener.socket, path.display(), 10).expect("it listens");
        assert!(!is_refused(&path).expect("asked"));
    }

    #[test]
    fn a_left_over_is_replaced_and_one_in_use_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).expect("bound"));
        assert!(path.exists(), "the standard library leaves it");

        let listener = Listener::bind(&path, 0o700, 10).expect("replaced");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(Listener::bind(&path, 0, 10).is_err());
        assert!(path.exists());
        drop(listener);
        assert!(!path.exists());

        // One that is stopped takes no connections, and its backlog is full.
        let stopped = Listener::bind(&path, 0, 1).expect("bound");
        let waiting: Vec<_> = std::iter::repeat_with(|| {
            let socket = unconnected().expect("a socket");
            let address = UnixAddr::new(&path).expect("an address");
            connect(socket.as_raw_fd(), &address).map(|()| socket)
        })
        .take_while(Result::is_ok)
        .take(100)
        .collect();
        assert!(waiting.len() < 100, "the backlog has no end");
        assert!(Listener::bind(&path, 0, 1).is_err());
        assert!(path.exists());
        drop(stopped);

        fs::write(&path, "precious").expect("written");
        assert!(Listener::bind(&path, 0, 10).is_err());
        assert_eq!(fs::read(&path).expect("there"), b"precious");
    }
}
