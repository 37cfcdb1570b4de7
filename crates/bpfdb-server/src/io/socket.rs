//! Sockets: the listener, and what the standard library does not offer.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, Shutdown, SockFlag, SockType, SockaddrStorage, bind, getpeername,
    getsockname, listen, setsockopt, shutdown, socket, sockopt,
};

use crate::error::{Result, system};

/// Of the kernel's account of a socket's memory; later ones add to it.
const MEMORY_WORDS: usize = libc::SK_MEMINFO_DROPS as usize + 1;

/// A socket bound to `address`, not listening yet.
pub(crate) fn bound(address: SocketAddr) -> Result<TcpListener> {
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(family, SockType::Stream, flags, None).map_err(system("create a socket"))?;

    setsockopt(&fd, sockopt::ReuseAddr, &true).map_err(system("set up the listener"))?;
    // Inherited by connections; a fixed size, so that programs know how much
    // they may send (BPFDB_SEND_BUFFER). The kernel doubles what it gets.
    let half = bpfdb::abi::BPFDB_SEND_BUFFER as usize / 2;
    setsockopt(&fd, sockopt::SndBufForce, &half).map_err(system("set the send buffer"))?;
    // Else net.ipv4.tcp_notsent_lowat, if it is set, has TCP refuse a part of what they send.
    set_integer(
        fd.as_fd(),
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        i32::MAX,
    )
    .map_err(system("set up the listener"))?;
    bind(fd.as_raw_fd(), &SockaddrStorage::from(address))
        .map_err(system(format!("listen on {address}")))?;
    Ok(TcpListener::from(fd))
}

/// `address`: what an error names.
pub(crate) fn start_listening(
    listener: &impl AsFd,
    address: impl Display,
    backlog: u32,
) -> Result<()> {
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    let listened = Backlog::new(backlog).and_then(|backlog| listen(listener, backlog));
    listened.map_err(system(format!("listen on {address}")))
}

/// No connection is made from now on, and those that were not accepted are closed.
pub(crate) fn stop_listening(listener: &impl AsFd) -> Result<()> {
    match shutdown(listener.as_fd().as_raw_fd(), Shutdown::Both) {
        // It has not begun to listen.
        Ok(()) | Err(Errno::ENOTCONN) => Ok(()),
        Err(error) => Err(system("stop listening")(error)),
    }
}

/// The number of a socket that the kernel side knows it by.
pub(crate) fn cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    integer(socket, libc::SOL_SOCKET, libc::SO_COOKIE)
}

/// The value of an option that is an integer, none below 0. One of four bytes is the lower half:
/// the server runs on little-endian machines only.
fn integer(socket: BorrowedFd<'_>, level: i32, option: i32) -> io::Result<u64> {
    let mut value = 0u64;
    let mut len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value is as long as len says.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value)
}

/// The next connection, if there is one. It does not block, and sends replies
/// at once.
pub(crate) fn accept(listener: &TcpListener) -> io::Result<Option<OwnedFd>> {
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
        // SAFETY: a new descriptor that is not shared.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        setsockopt(&fd, sockopt::TcpNoDelay, &true)?;
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

pub(crate) fn peer(socket: BorrowedFd<'_>) -> Option<SocketAddr> {
    inet(getpeername(socket.as_raw_fd()).ok()?)
}

pub(crate) fn local(socket: BorrowedFd<'_>) -> Option<SocketAddr> {
    inet(getsockname(socket.as_raw_fd()).ok()?)
}

fn inet(address: SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|&a| SocketAddr::V4(a.into()));
    v4.or_else(|| address.as_sockaddr_in6().map(|&a| SocketAddr::V6(a.into())))
}

/// Lets the kernel ask a client that is silent for so many seconds whether it
/// still lives, and give up after three questions. 0: never.
pub(crate) fn keep_alive(socket: BorrowedFd<'_>, seconds: u64) {
    let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
    let set = || {
        setsockopt(&socket, sockopt::KeepAlive, &(seconds > 0))?;
        if seconds > 0 {
            setsockopt(&socket, sockopt::TcpKeepIdle, &seconds)?;
            setsockopt(&socket, sockopt::TcpKeepInterval, &(seconds / 3).max(1))?;
            setsockopt(&socket, sockopt::TcpKeepCount, &3)?;
        }
        Ok::<(), nix::Error>(())
    };
    if let Err(error) = set() {
        tracing::warn!(%error, "cannot set up keep-alive");
    }
}

/// Has the other end closed its side of the stream, or is the connection gone?
pub(crate) fn has_ended(socket: BorrowedFd<'_>) -> bool {
    let mut asked = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: one entry, which lives until the call is over; it does not wait.
    let ready = unsafe { libc::poll(&raw mut asked, 1, 0) };
    ready > 0
}

/// Makes the kernel give what has arrived to the programs, as it does when
/// something arrives.
///
/// A `recv()` does so too, but it then sets TCP's `copied_seq` back to what it
/// was before the programs took the bytes (`tcp_bpf_recvmsg_parser`, 6.18):
/// poll calls the socket readable from then on, and nothing can be read.
pub(crate) fn announce_arrived(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_integer(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 1)
}

fn set_integer(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: an integer, as long as it says.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Receives without blocking: `None` if there is nothing now, 0 at the end.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the buffer is as long as its length.
    let got = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
        )
    };
    finished(got)
}

/// Sends without blocking: `None` if nothing can be sent now.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<Option<usize>> {
    // SAFETY: the bytes are as many as their length.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    finished(sent)
}

/// Bytes that the send buffer takes, those included that the kernel needs for each piece: so it
/// counts itself when it asks whether there is room.
pub(crate) fn queued(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut memory = [0u32; MEMORY_WORDS];
    let mut len = size_of_val(&memory) as libc::socklen_t;
    // SAFETY: the memory is as long as len says.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            memory.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    match result {
        0 => Ok(memory[libc::SK_MEMINFO_WMEM_QUEUED as usize] as usize),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends what is to be sent, and takes nothing more.
pub(crate) fn end_stream(socket: BorrowedFd<'_>) {
    // It may have ended by itself.
    let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
}

fn finished(result: isize) -> io::Result<Option<usize>> {
    if result >= 0 {
        return Ok(Some(result as usize));
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(None),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    /// What the machine's tuning says of unsent bytes does not hold for connections: TCP takes
    /// what the send buffer has room for.
    #[test]
    fn connections_have_no_low_water_mark_of_unsent_bytes() {
        let listener = bound(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a listener");
        start_listening(&listener, "a port", 1).expect("listens");
        let address = listener.local_addr().expect("an address");
        let _client = TcpStream::connect(address).expect("connects");
        let accepted = accept(&listener).expect("accepts").expect("a connection");
        let mark = integer(accepted.as_fd(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
        assert_eq!(mark.expect("an option of TCP"), i32::MAX as u64);
    }
}
