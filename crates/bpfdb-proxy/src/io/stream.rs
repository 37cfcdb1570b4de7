//! A connection, with TLS or without: bytes as the protocol has them on this side.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use bytes::{Buf, BytesMut};
use rustls::pki_types::CertificateDer;

use super::socket::{self, CHUNK, Received};

#[derive(Debug)]
enum End {
    Socket(OwnedFd),
    /// Nothing comes, and what is sent is gone.
    Nowhere(&'static OwnedFd),
}

#[derive(Debug)]
pub(crate) struct Stream {
    end: End,
    tls: Option<Box<rustls::Connection>>,
}

impl From<OwnedFd> for Stream {
    fn from(fd: OwnedFd) -> Self {
        Self {
            end: End::Socket(fd),
            tls: None,
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Socket(fd) => fd.as_fd(),
            Self::Nowhere(fd) => fd.as_fd(),
        }
    }
}

/// Bytes that TLS keeps to be sent, at most; more stays with the caller.
const UNSENT_MAX: usize = CHUNK;

impl Stream {
    /// Of no connection. All of them share a descriptor.
    pub(crate) fn nowhere() -> io::Result<Self> {
        static NOWHERE: OnceLock<OwnedFd> = OnceLock::new();
        let fd = match NOWHERE.get() {
            Some(fd) => fd,
            None => {
                let opened = OwnedFd::from(std::fs::File::open("/dev/null")?);
                NOWHERE.get_or_init(|| opened)
            }
        };
        Ok(Self {
            end: End::Nowhere(fd),
            tls: None,
        })
    }

    /// From now on all bytes are of TLS; `early`: those that were received already.
    pub(crate) fn begin_tls(
        &mut self,
        mut tls: rustls::Connection,
        early: &mut BytesMut,
    ) -> io::Result<()> {
        tls.set_buffer_limit(Some(UNSENT_MAX));
        while !early.is_empty() {
            let taken = tls.read_tls(&mut &early[..])?;
            early.advance(taken);
            tls.process_new_packets().map_err(io::Error::other)?;
        }
        self.tls = Some(Box::new(tls));
        self.push()
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// What the other end has shown of itself, signed by one of the authorities.
    pub(crate) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.as_ref()?.peer_certificates()?.first()
    }

    /// Are there bytes of TLS that the socket has not taken yet?
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Appends what has arrived.
    pub(crate) fn receive(&mut self, buffer: &mut BytesMut) -> Received {
        let Some(tls) = &mut self.tls else {
            return socket::receive(self.end.as_fd(), buffer);
        };
        let mut all = 0;
        let mut read = 0;
        let mut ends = false;
        while read < CHUNK && !ends {
            match tls.read_tls(&mut Fd(self.end.as_fd())) {
                Ok(0) => ends = true,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => ends = true,
            }
            match tls.process_new_packets() {
                Ok(state) => {
                    ends |= state.peer_has_closed();
                    match take(tls, buffer, state.plaintext_bytes_to_read()) {
                        Ok(bytes) => all += bytes,
                        Err(_) => ends = true,
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "TLS has failed");
                    // The other end hears why.
                    let _ = self.push();
                    return Received::End;
                }
            }
        }
        let is_broken = self.push().is_err();
        match all {
            0 if ends || is_broken => Received::End,
            0 if read < CHUNK => Received::Nothing,
            count => Received::Bytes {
                count,
                more: ends || read >= CHUNK,
            },
        }
    }

    /// Sends as much as can be sent now; how much. An error: the other end is gone.
    pub(crate) fn send(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        if matches!(self.end, End::Nowhere(_)) {
            let all = buffer.len();
            buffer.clear();
            return Ok(all);
        }
        if self.tls.is_none() {
            return socket::send(self.end.as_fd(), buffer);
        }
        let mut all = 0;
        loop {
            let Some(tls) = &mut self.tls else {
                return Ok(all);
            };
            let taken = tls.writer().write(buffer)?;
            buffer.advance(taken);
            all += taken;
            self.push()?;
            if buffer.is_empty() || taken == 0 {
                return Ok(all);
            }
        }
    }

    /// Gives the socket what TLS has to send, as far as it takes it.
    fn push(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        while tls.wants_write() {
            match tls.write_tls(&mut Fd(self.end.as_fd())) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The other end is told that this one has nothing more to say.
    pub(crate) fn say_end(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = self.push();
        }
    }
}

/// Bytes of the protocol out of TLS.
fn take(tls: &mut rustls::Connection, buffer: &mut BytesMut, bytes: usize) -> io::Result<usize> {
    let at = buffer.len();
    buffer.resize(at + bytes, 0);
    let read = tls.reader().read_exact(&mut buffer[at..]);
    if read.is_err() {
        buffer.truncate(at);
    }
    read.map(|()| bytes)
}

/// A socket that is read from and written to without waiting.
struct Fd<'a>(BorrowedFd<'a>);

fn result(done: isize) -> io::Result<usize> {
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}

impl Read for Fd<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the bytes are as many as their length.
        result(unsafe {
            libc::recv(
                self.0.as_raw_fd(),
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                libc::MSG_DONTWAIT,
            )
        })
    }
}

impl Write for Fd<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the bytes are as many as their length.
        result(unsafe {
            libc::send(
                self.0.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
