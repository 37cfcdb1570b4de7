//! A client of sockets and bytes.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};

/// Longer than any reply takes; a test that hangs says where.
const PATIENCE: Duration = Duration::from_secs(20);

/// Type and body.
pub(crate) type Message = (u8, Vec<u8>);

pub(crate) struct Wire {
    pub(crate) socket: TcpStream,
    input: Vec<u8>,
    /// By which it cancels.
    pub(crate) key: Vec<u8>,
}

pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind][..], &length, body].concat()
}

pub(crate) fn query(text: &str) -> Vec<u8> {
    message(b'Q', format!("{text}\0").as_bytes())
}

pub(crate) fn parse(name: &str, text: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{text}\0\0\0").as_bytes())
}

/// Bind without parameters, Describe and Execute.
pub(crate) fn execute(name: &str) -> Vec<u8> {
    let bind = message(b'B', format!("\0{name}\0\0\0\0\0\0\0").as_bytes());
    [bind, message(b'D', b"P\0"), message(b'E', b"\0\0\0\0\0")].concat()
}

/// The same with a parameter, as text.
pub(crate) fn execute_with(name: &str, value: &str) -> Vec<u8> {
    let mut body = format!("\0{name}\0\0\0\0\x01").into_bytes();
    body.extend((value.len() as u32).to_be_bytes());
    body.extend(value.as_bytes());
    body.extend([0, 0]);
    let rest = [message(b'D', b"P\0"), message(b'E', b"\0\0\0\0\0")].concat();
    [message(b'B', &body), rest].concat()
}

/// Asks for what the connection with this key does to be cancelled.
pub(crate) fn cancel_request(key: &[u8]) -> Vec<u8> {
    [&16u32.to_be_bytes()[..], &80_877_102u32.to_be_bytes(), key].concat()
}

/// Close of a statement.
pub(crate) fn close(name: &str) -> Vec<u8> {
    message(b'C', format!("S{name}\0").as_bytes())
}

pub(crate) fn sync() -> Vec<u8> {
    message(b'S', b"")
}

/// The values of a DataRow.
fn values(body: &[u8]) -> Vec<String> {
    let (mut rest, mut values) = (&body[2..], Vec::new());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = i32::from_be_bytes(*length).max(0) as usize;
        values.push(String::from_utf8_lossy(&after[..length]).into_owned());
        rest = &after[length..];
    }
    values
}

pub(crate) fn rows(messages: &[Message]) -> Vec<Vec<String>> {
    let rows = messages.iter().filter(|(kind, _)| *kind == b'D');
    rows.map(|(_, body)| values(body)).collect()
}

pub(crate) fn kinds(messages: &[Message]) -> String {
    messages.iter().map(|(kind, _)| char::from(*kind)).collect()
}

/// A field of the error among these messages.
pub(crate) fn error(messages: &[Message], field: u8) -> String {
    let (_, body) = messages
        .iter()
        .find(|(kind, _)| *kind == b'E')
        .expect("an error");
    let fields = body.split(|byte| *byte == 0);
    let mut found = fields.filter(|text| text.first() == Some(&field));
    String::from_utf8_lossy(&found.next().expect("the field")[1..]).into_owned()
}

pub(crate) fn start_packet(user: &str, more: &[(&str, &str)]) -> Vec<u8> {
    start_packet_for(user, "postgres", more)
}

pub(crate) fn start_packet_for(user: &str, database: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut body = format!("user\0{user}\0database\0{database}\0");
    more.iter()
        .for_each(|(name, value)| body += &format!("{name}\0{value}\0"));
    body.push('\0');
    let length = (body.len() as u32 + 8).to_be_bytes();
    [&length[..], &196_608u32.to_be_bytes(), body.as_bytes()].concat()
}

impl Wire {
    /// A connection that has sent nothing.
    pub(crate) fn open(port: u16) -> Self {
        Self::open_at(([127, 0, 0, 1], port).into())
    }

    fn open_at(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("connected");
        socket.set_nodelay(true).expect("no delay");
        Self::of(socket)
    }

    pub(crate) fn of(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
        Self {
            socket,
            input: Vec::new(),
            key: Vec::new(),
        }
    }

    pub(crate) fn connect(port: u16, user: &str, more: &[(&str, &str)]) -> Self {
        Self::connect_at(([127, 0, 0, 1], port).into(), user, more)
    }

    pub(crate) fn connect_at(address: SocketAddr, user: &str, more: &[(&str, &str)]) -> Self {
        Self::open_at(address).started(&start_packet(user, more))
    }

    pub(crate) fn connect_to(port: u16, user: &str, database: &str) -> Self {
        Self::open(port).started(&start_packet_for(user, database, &[]))
    }

    /// The parameters that a client is greeted with.
    pub(crate) fn started_with(port: u16, more: &[(&str, &str)]) -> HashMap<String, String> {
        let mut wire = Self::open(port);
        wire.send(&start_packet(crate::postgres::USER, more));
        let told = wire.until(b'Z');
        let parameters = told.iter().filter(|(kind, _)| *kind == b'S');
        let texts = parameters.map(|(_, body)| String::from_utf8_lossy(body).into_owned());
        let pairs = texts.filter_map(|text| {
            let (name, value) = text.strip_suffix('\0')?.split_once('\0')?;
            Some((name.to_owned(), value.to_owned()))
        });
        pairs.collect()
    }

    /// The same, with a password by SCRAM.
    pub(crate) fn log_in(port: u16, user: &str, password: &str) -> Self {
        let mut wire = Self::open(port);
        wire.send(&start_packet(user, &[]));
        let binding = ChannelBinding::unsupported();
        let mut scram = ScramSha256::new(password.as_bytes(), binding);
        wire.until(b'R');
        let first = scram.message();
        let length = (first.len() as u32).to_be_bytes();
        wire.send(&message(
            b'p',
            &[&b"SCRAM-SHA-256\0"[..], &length, first].concat(),
        ));
        let (_, challenge) = wire.until(b'R').remove(0);
        scram.update(&challenge[4..]).expect("a challenge");
        wire.send(&message(b'p', scram.message()));
        wire.greeted();
        wire
    }

    fn started(mut self, packet: &[u8]) -> Self {
        self.send(packet);
        self.greeted();
        self
    }

    fn greeted(&mut self) {
        for (kind, body) in self.until(b'Z') {
            match kind {
                b'K' => self.key = body,
                b'E' => panic!("refused: {}", String::from_utf8_lossy(&body)),
                _ => {}
            }
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("sent");
    }

    /// The next message; `None`: the connection has ended.
    pub(crate) fn receive(&mut self) -> Option<Message> {
        let begun = Instant::now();
        loop {
            if self.input.len() >= 5 {
                let length = u32::from_be_bytes(self.input[1..5].try_into().expect("four bytes"));
                let end = 1 + length as usize;
                if self.input.len() >= end {
                    let rest = self.input.split_off(end);
                    let whole = std::mem::replace(&mut self.input, rest);
                    return Some((whole[0], whole[5..].to_vec()));
                }
            }
            let mut bytes = [0; 65536];
            match self.socket.read(&mut bytes) {
                Ok(0) => return None,
                Ok(read) => self.input.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                // So a read may end of a socket whose bytes come past TCP (docs/proxy.md).
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock && begun.elapsed() < PATIENCE => {}
                Err(error) => panic!("nothing came: {error}"),
            }
        }
    }

    /// Passes over bytes that are no message.
    pub(crate) fn skip(&mut self, bytes: usize) {
        let mut skipped = vec![0; bytes];
        self.socket.read_exact(&mut skipped).expect("they come");
    }

    /// Messages up to one of this type, or to the end.
    pub(crate) fn until(&mut self, kind: u8) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(message) = self.receive() {
            let is_last = message.0 == kind;
            messages.push(message);
            if is_last {
                break;
            }
        }
        messages
    }

    pub(crate) fn query(&mut self, text: &str) -> Vec<Message> {
        self.send(&query(text));
        self.until(b'Z')
    }

    pub(crate) fn rows(&mut self, text: &str) -> Vec<Vec<String>> {
        rows(&self.query(text))
    }

    /// The only value of the only row.
    pub(crate) fn value(&mut self, text: &str) -> String {
        let rows = self.rows(text);
        assert_eq!((rows.len(), rows[0].len()), (1, 1), "{text}: {rows:?}");
        rows[0][0].clone()
    }
}
