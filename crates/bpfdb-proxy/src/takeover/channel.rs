//! The connection of two proxies of which one follows the other.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use bytes::Bytes;
use zeroize::{Zeroize, Zeroizing};

use super::{MESSAGE_MAX, Message};

/// Room for one descriptor beside a message, as CMSG_SPACE says it.
const CONTROL: usize = 64;

/// What came of looking for a message.
#[derive(Debug)]
pub(crate) enum Received {
    /// Without the descriptor that was sent with it if there is no room for that: the limit of open files, for example.
    Message(Message, Option<OwnedFd>),
    Nothing,
    /// The other process is gone, or sends what is no message.
    End,
}

/// The other process.
#[derive(Debug)]
pub(crate) struct Channel(pub(crate) OwnedFd);

/// Aligned as the header of a control message.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

impl Channel {
    /// Sends a message, if there is room for it now; a copy of the descriptor goes with it.
    ///
    /// # Errors
    /// WouldBlock: there is no room. InvalidInput: it is too long. Else the other process is gone.
    pub(crate) fn send(&self, message: &Message, fd: Option<&dyn AsFd>) -> io::Result<()> {
        let mut bytes = message.write();
        let sent = if bytes.len() > MESSAGE_MAX {
            Err(io::ErrorKind::InvalidInput.into())
        } else {
            self.send_bytes(&bytes, fd)
        };
        bytes[..].zeroize();
        sent
    }

    fn send_bytes(&self, bytes: &[u8], fd: Option<&dyn AsFd>) -> io::Result<()> {
        let mut part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut control = Control([0; CONTROL]);
        // SAFETY: a structure of numbers and pointers, for which zero is valid.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if let Some(fd) = fd {
            let fd: RawFd = fd.as_fd().as_raw_fd();
            let size = size_of::<RawFd>() as u32;
            header.msg_control = (&raw mut control).cast();
            // SAFETY: there is room for one descriptor, at an address that is aligned for the header.
            unsafe {
                header.msg_controllen = libc::CMSG_SPACE(size) as usize;
                let first = libc::CMSG_FIRSTHDR(&raw const header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(size) as usize;
                ptr::copy_nonoverlapping(&raw const fd, libc::CMSG_DATA(first).cast(), 1);
            }
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the header and what it names live until it returns.
        let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const header, flags) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// The next message. Whether it waits for one is up to the socket.
    pub(crate) fn receive(&self) -> Received {
        let mut bytes = Zeroizing::new(vec![0u8; MESSAGE_MAX]);
        let mut part = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut control = Control([0; CONTROL]);
        // SAFETY: as above.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut control).cast();
        // Of one descriptor.
        // SAFETY: a function of a number.
        header.msg_controllen = unsafe { libc::CMSG_LEN(size_of::<RawFd>() as u32) } as usize;
        // SAFETY: as above.
        let got =
            unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        let Ok(length) = usize::try_from(got) else {
            return match io::Error::last_os_error().kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Received::Nothing,
                _ => Received::End,
            };
        };
        let fd = received_fd(&header);
        bytes.truncate(length);
        let is_whole = header.msg_flags & libc::MSG_TRUNC == 0;
        match Message::read(Bytes::from_owner(bytes)).filter(|_| is_whole) {
            Some(message) => Received::Message(message, fd),
            None => Received::End,
        }
    }
}

/// The descriptor that came with a message.
fn received_fd(header: &libc::msghdr) -> Option<OwnedFd> {
    // SAFETY: recvmsg() has filled the header and its control messages.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(header);
        let is_fd = !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS;
        is_fd.then(|| {
            let fd = ptr::read_unaligned(libc::CMSG_DATA(first).cast::<RawFd>());
            OwnedFd::from_raw_fd(fd)
        })
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    use super::super::ClientState;
    use super::*;

    fn pair() -> (Channel, Channel) {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let pair = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags);
        let (one, other) = pair.expect("a pair");
        (Channel(one), Channel(other))
    }

    /// The process that has sent it keeps what the descriptor is of.
    #[test]
    fn a_message_comes_without_a_descriptor_for_which_there_is_no_room() {
        let name = "takeover::channel::tests::\
                    a_message_comes_without_a_descriptor_for_which_there_is_no_room";
        bpfdb_tests::process::alone_in_a_process(name, || {
            let (one, other) = pair();
            let send = || one.send(&Message::Gone, Some(&one.0)).expect("sent");
            let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
            let limit = |soft| setrlimit(Resource::RLIMIT_NOFILE, soft, hard).expect("set");
            for (most, comes) in [(0, false), (soft, true)] {
                send();
                limit(most);
                let Received::Message(Message::Gone, fd) = other.receive() else {
                    panic!("no message");
                };
                assert_eq!(fd.is_some(), comes);
                limit(soft);
            }
        });
    }

    #[test]
    fn descriptors_come_with_messages() {
        use std::io::{Read, Write};
        use std::os::unix::net::UnixStream;

        let (one, other) = pair();
        assert!(matches!(other.receive(), Received::Nothing));
        let client = ClientState {
            user: "u".into(),
            ..ClientState::default()
        };
        let (mut kept, sent) = UnixStream::pair().expect("a pair");
        let message = Message::Client(Box::new(client.clone()));
        one.send(&message, Some(&sent)).expect("sent");
        one.send(&Message::Gone, None).expect("sent");
        drop(sent);
        let Received::Message(found, Some(fd)) = other.receive() else {
            panic!("no message");
        };
        assert_eq!(found, message);
        UnixStream::from(fd).write_all(b"a").expect("written");
        let mut read = [0];
        kept.read_exact(&mut read).expect("read");
        assert!(matches!(
            other.receive(),
            Received::Message(Message::Gone, None)
        ));
        let mut long = client;
        long.user = "u".repeat(MESSAGE_MAX);
        let told = one
            .send(&Message::Client(Box::new(long)), None)
            .expect_err("too long");
        assert_eq!(told.kind(), io::ErrorKind::InvalidInput);
        drop(one);
        assert!(matches!(other.receive(), Received::End));
    }
}
