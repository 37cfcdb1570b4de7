//! What a proxy hands to its successor: messages between two processes, with descriptors.
//!
//! ```text
//!   successor ── connects to takeover_socket ──► proxy
//!   successor ◄── Listener, with its descriptor; …; AllListeners ── proxy
//!   successor ── Ready: it can serve ──► proxy
//!   successor ◄── Keep, with maps of the kernel; Gone: it listens no more ── proxy
//!   successor ◄── Client, with its descriptor; … as they have no transaction ── proxy
//!   successor ── Cancel: of a client that it does not know ──► proxy
//! ```
//!
//! One message is one packet (SOCK_SEQPACKET): a byte that says what it is, and fields that are bytes with their
//! length before them.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::ptr;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::io::socket::Address;

/// Longer ones are not sent, bytes: a client with many long statements stays.
pub(crate) const MESSAGE_MAX: usize = 64 * 1024;
/// Room for one descriptor beside a message, as CMSG_SPACE says it.
const CONTROL: usize = 64;

/// A client between two transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientState {
    pub(crate) user: String,
    pub(crate) database: String,
    /// Of its pool.
    pub(crate) options: Vec<(String, String)>,
    pub(crate) parameters: Vec<(String, String)>,
    /// Its names of prepared statements, and what Parse has of them behind the name.
    pub(crate) statements: Vec<(Bytes, Bytes)>,
    /// By which it cancels.
    pub(crate) number: i32,
    pub(crate) secret: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Listener(Address),
    AllListeners,
    Ready,
    Keep,
    Gone,
    Client(ClientState),
    Cancel { number: i32, secret: i32 },
}

fn put(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32(bytes.len() as u32);
    out.put_slice(bytes);
}

fn take(from: &mut Bytes) -> Option<Bytes> {
    let length = from.try_get_u32().ok()? as usize;
    (length <= from.len()).then(|| from.split_to(length))
}

fn text(from: &mut Bytes) -> Option<String> {
    String::from_utf8(take(from)?.to_vec()).ok()
}

fn put_pairs(out: &mut BytesMut, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) {
    out.put_u32(pairs.len() as u32);
    for (name, value) in pairs {
        put(out, name.as_ref());
        put(out, value.as_ref());
    }
}

fn pairs<T>(from: &mut Bytes, one: impl Fn(&mut Bytes) -> Option<T>) -> Option<Vec<(T, T)>> {
    let count = from.try_get_u32().ok()?;
    let mut pair = || Some((one(from)?, one(from)?));
    (0..count).map(|_| pair()).collect()
}

impl Message {
    fn write(&self) -> BytesMut {
        let mut out = BytesMut::new();
        match self {
            Self::Listener(Address::Inet(address)) => {
                out.put_u8(b'I');
                put(&mut out, address.to_string().as_bytes());
            }
            Self::Listener(Address::Unix(path)) => {
                out.put_u8(b'U');
                put(&mut out, path.as_os_str().as_encoded_bytes());
            }
            Self::AllListeners => out.put_u8(b'E'),
            Self::Ready => out.put_u8(b'R'),
            Self::Keep => out.put_u8(b'M'),
            Self::Gone => out.put_u8(b'G'),
            Self::Client(client) => {
                out.put_u8(b'C');
                put(&mut out, client.user.as_bytes());
                put(&mut out, client.database.as_bytes());
                put_pairs(&mut out, &client.options);
                put_pairs(&mut out, &client.parameters);
                put_pairs(&mut out, &client.statements);
                out.put_i32(client.number);
                out.put_i32(client.secret);
            }
            Self::Cancel { number, secret } => {
                out.put_u8(b'K');
                out.put_i32(*number);
                out.put_i32(*secret);
            }
        }
        out
    }

    /// `None`: it is none of these, for example one of another version.
    fn read(mut from: Bytes) -> Option<Self> {
        let from = &mut from;
        let message = match from.try_get_u8().ok()? {
            b'I' => Self::Listener(Address::Inet(text(from)?.parse().ok()?)),
            b'U' => Self::Listener(Address::Unix(PathBuf::from(text(from)?))),
            b'E' => Self::AllListeners,
            b'R' => Self::Ready,
            b'M' => Self::Keep,
            b'G' => Self::Gone,
            b'C' => Self::Client(ClientState {
                user: text(from)?,
                database: text(from)?,
                options: pairs(from, text)?,
                parameters: pairs(from, text)?,
                statements: pairs(from, take)?,
                number: from.try_get_i32().ok()?,
                secret: from.try_get_i32().ok()?,
            }),
            b'K' => Self::Cancel {
                number: from.try_get_i32().ok()?,
                secret: from.try_get_i32().ok()?,
            },
            _ => return None,
        };
        from.is_empty().then_some(message)
    }
}

/// What came of looking for a message.
#[derive(Debug)]
pub(crate) enum Received {
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
        let bytes = message.write();
        if bytes.len() > MESSAGE_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
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
        let mut bytes = vec![0u8; MESSAGE_MAX];
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
        let is_whole = header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) == 0;
        match Message::read(bytes.into()).filter(|_| is_whole) {
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
    use super::*;

    fn client() -> ClientState {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        ClientState {
            user: "u".into(),
            database: "d".into(),
            options: vec![pair("search_path", "a, b")],
            parameters: vec![pair("TimeZone", "UTC"), pair("application_name", "")],
            statements: vec![(Bytes::new(), Bytes::from_static(b"select 1\0\0\0"))],
            number: 7,
            secret: -1,
        }
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        for message in [
            Message::Listener(Address::Inet(([127, 0, 0, 1], 6432).into())),
            Message::Listener(Address::Unix("/run/.s.PGSQL.6432".into())),
            Message::AllListeners,
            Message::Ready,
            Message::Keep,
            Message::Gone,
            Message::Client(client()),
            Message::Cancel {
                number: 1,
                secret: i32::MIN,
            },
        ] {
            let bytes = message.write().freeze();
            assert_eq!(Message::read(bytes.clone()), Some(message.clone()));
            // Parts of it, and what has more, are none.
            for end in 0..bytes.len() {
                assert_eq!(Message::read(bytes.slice(..end)), None, "{message:?}");
            }
            let longer = [&bytes[..], b"x"].concat();
            assert_eq!(Message::read(longer.into()), None);
        }
    }

    #[test]
    fn descriptors_come_with_messages() {
        use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
        use std::io::{Read, Write};
        use std::os::unix::net::UnixStream;

        let (one, other) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        )
        .expect("a pair");
        let (one, other) = (Channel(one), Channel(other));
        assert!(matches!(other.receive(), Received::Nothing));
        let (mut kept, sent) = UnixStream::pair().expect("a pair");
        let message = Message::Client(client());
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
        let mut long = client();
        long.user = "u".repeat(MESSAGE_MAX);
        let told = one
            .send(&Message::Client(long), None)
            .expect_err("too long");
        assert_eq!(told.kind(), io::ErrorKind::InvalidInput);
        drop(one);
        assert!(matches!(other.receive(), Received::End));
    }
}
