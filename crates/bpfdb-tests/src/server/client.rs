//! A client of a server, over TCP or a Unix socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use super::ahead::Ahead;
use super::reply::Frame;
use super::{patience, request, show};

/// A connection; it speaks RESP2 until it says HELLO 3.
pub struct Client {
    pub stream: TcpStream,
    /// What has come; the first `taken` bytes of it were handed out.
    buffer: Vec<u8>,
    taken: usize,
    /// Of the reply that begins behind them.
    frame: Frame,
    ahead: Ahead,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream
            .set_read_timeout(Some(patience()))
            .expect("a time-out");
        stream
            .set_write_timeout(Some(patience()))
            .expect("a time-out");
        stream.set_nodelay(true).expect("no delay");
        Self::from_stream(stream)
    }

    /// A client of the daemon: the kernel does not see this socket.
    pub fn connect_unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("a connection");
        stream
            .set_read_timeout(Some(patience()))
            .expect("a time-out");
        // To read and to write, one is as good as the other.
        Self::from_stream(TcpStream::from(OwnedFd::from(stream)))
    }

    pub fn from_stream(stream: TcpStream) -> Self {
        Self {
            ahead: Ahead::at_other_end(&stream),
            stream,
            buffer: Vec::new(),
            taken: 0,
            frame: Frame::default(),
        }
    }

    /// Receives so many replies that it is known how this client reads. From then on it can be
    /// answered in its own `send()`.
    pub fn receive_until_known(&mut self) {
        for _ in 0..2 * bpfdb::abi::BPFDB_LOCAL_READS {
            assert_eq!(self.say("PING"), "+PONG\r\n");
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.ahead.of(bytes);
        self.stream.write_all(bytes).expect("sent");
    }

    /// Sends a command; its reply as it came.
    pub fn ask(&mut self, words: &[&[u8]]) -> Vec<u8> {
        self.send(&request(words));
        self.reply()
    }

    /// The same for a command given as text.
    pub fn say(&mut self, command: &str) -> String {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        String::from_utf8(self.ask(&words)).expect("text")
    }

    /// One whole reply, with all its markers.
    pub fn reply(&mut self) -> Vec<u8> {
        self.try_reply()
            .unwrap_or_else(|error| panic!("{error} after {:?}", show(&self.buffer[self.taken..])))
    }

    /// The same, if the server may close the connection before.
    pub fn try_reply(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(reply) = self.take_reply() {
                return Ok(reply);
            }
            if self.fill()? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The replies that are here already.
    pub fn replies_at_hand(&mut self) -> Vec<Vec<u8>> {
        self.stream.set_nonblocking(true).expect("set");
        let mut chunk = [0; 65536];
        if let Ok(got) = self.stream.read(&mut chunk) {
            self.buffer.extend_from_slice(&chunk[..got]);
        }
        self.stream.set_nonblocking(false).expect("set");
        std::iter::from_fn(|| self.take_reply()).collect()
    }

    /// The next reply, if all of it has come.
    fn take_reply(&mut self) -> Option<Vec<u8>> {
        let rest = &self.buffer[self.taken..];
        let len = self.frame.end(rest)?;
        let reply = rest[..len].to_vec();
        self.taken += len;
        self.frame = Frame::default();
        Some(reply)
    }

    /// Forgets what was handed out: little is left to be moved then.
    fn make_room(&mut self) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
    }

    /// All that has come and was not handed out.
    fn take_rest(&mut self) -> Vec<u8> {
        self.make_room();
        self.frame = Frame::default();
        std::mem::take(&mut self.buffer)
    }

    /// How many bytes came; 0 at the end of the stream.
    fn fill(&mut self) -> io::Result<usize> {
        self.make_room();
        let mut chunk = [0; 65536];
        let start = Instant::now();
        loop {
            match self.stream.read(&mut chunk) {
                Ok(got) => {
                    self.buffer.extend_from_slice(&chunk[..got]);
                    return Ok(got);
                }
                // The process was stopped meanwhile.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A socket in a map of sockets says this when it was woken up
                // for anything but data, too: bpf/net/local.bpf.h, 6.
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock && start.elapsed() < patience() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Everything that comes until the server closes. Who has not read all that
    /// was sent closes by a reset.
    pub fn until_closed(&mut self) -> Vec<u8> {
        loop {
            match self.fill() {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{error} after {:?}", show(&self.buffer)),
            }
        }
        self.take_rest()
    }

    /// The same, if the server may also wait for more.
    pub fn try_until_closed(&mut self) -> Vec<u8> {
        while let Ok(1..) = self.fill() {}
        self.take_rest()
    }

    /// Has the server closed the connection, so far?
    pub fn is_closed_already(&self) -> bool {
        self.stream.set_nonblocking(true).expect("set");
        let closed = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).expect("set");
        match closed {
            Ok(got) => got == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    /// Does the server close the connection? (It may also reset it.)
    pub fn is_closed(&mut self) -> bool {
        loop {
            match self.fill() {
                Ok(0) => return true,
                Ok(_) => drop(self.take_rest()),
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
    }
}
