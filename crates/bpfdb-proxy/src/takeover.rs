//! What a proxy hands to its successor: messages between two processes, with descriptors.
//!
//! ```text
//!   successor ── connects to takeover_socket ──► proxy
//!   successor ◄── Hello; Listener, with its descriptor; …; Takeover, with that of this socket; AllListeners ── proxy
//!   successor ── Ready: it can serve ──► proxy
//!   successor ◄── Keep, with maps of the kernel; Held; Prepared: it accepts no client for now ── proxy
//!   successor ── Taken: it will serve ──► proxy
//!   successor ◄── Gone: it has closed its listeners ── proxy
//!   successor ◄── Client, with its descriptor; … as they have no transaction ── proxy
//!   successor ── Adopted, or Stays ──► proxy
//!   successor ── Cancel: of a client that it does not know ──► proxy
//! ```
//!
//! Until Taken has arrived the proxy goes on if the successor ends, or says nothing for too long. From then on the
//! successor serves, whatever becomes of the proxy. A client is the proxy's until Adopted has arrived.
//!
//! One message is one packet (SOCK_SEQPACKET): a byte that says what it is, and fields that are bytes with their
//! length before them. Hello and Ready have the version of all of this.

mod channel;

use std::path::PathBuf;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use zeroize::Zeroizing;

use crate::io::socket::Address;
pub(crate) use channel::{Channel, Received};

/// Proxies of another version do not follow each other.
pub(crate) const VERSION: u32 = 3;
/// Longer ones are not sent, bytes: a client with many long statements stays.
const MESSAGE_MAX: usize = 64 * 1024;

/// By which a client cancels; it tells clients apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CancelKey {
    pub(crate) number: i32,
    pub(crate) secret: i32,
}

/// As good as a password: it is not shown, and wiped when it is dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) Zeroizing<Vec<u8>>);

impl Secret {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// What operators have said at the console.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) all_paused: bool,
    pub(crate) paused: Vec<String>,
    pub(crate) disabled: Vec<String>,
    /// SET: names and values.
    pub(crate) settings: Vec<(String, String)>,
    /// MIRROR: databases and their mirrors; an empty one is none.
    pub(crate) mirrors: Vec<(String, String)>,
}

/// A client between two transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientState {
    pub(crate) user: String,
    pub(crate) database: String,
    /// Of its pool.
    pub(crate) options: Vec<(String, String)>,
    /// Those that PostgreSQL reports, and those that are only known to be set.
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) followed: Vec<(String, String)>,
    /// Its names of prepared statements, and what Parse has of them behind the name.
    pub(crate) statements: Vec<(Bytes, Bytes)>,
    pub(crate) key: CancelKey,
    /// What is known of the password of the user that its servers log in as.
    pub(crate) password: Option<Secret>,
    /// That user's SCRAM keys: the client's, and the server's.
    pub(crate) keys: Option<(Secret, Secret)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Hello {
        version: u32,
    },
    Listener(Address),
    Takeover,
    AllListeners,
    Ready {
        version: u32,
    },
    Keep,
    Held(Said),
    Prepared,
    Taken,
    Gone,
    Client(Box<ClientState>),
    Adopted(CancelKey),
    /// It was not adopted.
    Stays(CancelKey),
    Cancel(CancelKey),
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

fn put_texts(out: &mut BytesMut, texts: &[String]) {
    out.put_u32(texts.len() as u32);
    for text in texts {
        put(out, text.as_bytes());
    }
}

fn texts(from: &mut Bytes) -> Option<Vec<String>> {
    let count = from.try_get_u32().ok()?;
    (0..count).map(|_| text(from)).collect()
}

fn put_key(out: &mut BytesMut, key: CancelKey) {
    out.put_i32(key.number);
    out.put_i32(key.secret);
}

fn key(from: &mut Bytes) -> Option<CancelKey> {
    Some(CancelKey {
        number: from.try_get_i32().ok()?,
        secret: from.try_get_i32().ok()?,
    })
}

fn flag(from: &mut Bytes) -> Option<bool> {
    match from.try_get_u8().ok()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn put_secrets(out: &mut BytesMut, secrets: &[&Secret]) {
    out.put_u8(u8::from(!secrets.is_empty()));
    for secret in secrets {
        put(out, &secret.0);
    }
}

fn secret(from: &mut Bytes) -> Option<Secret> {
    Some(Secret::of(&take(from)?))
}

impl ClientState {
    fn write(&self, out: &mut BytesMut) {
        put(out, self.user.as_bytes());
        put(out, self.database.as_bytes());
        put_pairs(out, &self.options);
        put_pairs(out, &self.parameters);
        put_pairs(out, &self.followed);
        put_pairs(out, &self.statements);
        put_key(out, self.key);
        let password: Vec<&Secret> = self.password.iter().collect();
        put_secrets(out, &password);
        match &self.keys {
            Some((client, server)) => put_secrets(out, &[client, server]),
            None => put_secrets(out, &[]),
        }
    }

    fn read(from: &mut Bytes) -> Option<Self> {
        Some(Self {
            user: text(from)?,
            database: text(from)?,
            options: pairs(from, text)?,
            parameters: pairs(from, text)?,
            followed: pairs(from, text)?,
            statements: pairs(from, take)?,
            key: key(from)?,
            password: if flag(from)? {
                Some(secret(from)?)
            } else {
                None
            },
            keys: if flag(from)? {
                Some((secret(from)?, secret(from)?))
            } else {
                None
            },
        })
    }
}

impl Message {
    fn write(&self) -> BytesMut {
        // It does not grow then, which would leave a copy behind.
        let mut out = BytesMut::with_capacity(MESSAGE_MAX);
        match self {
            Self::Hello { version } => {
                out.put_u8(b'V');
                out.put_u32(*version);
            }
            Self::Listener(Address::Inet(address)) => {
                out.put_u8(b'I');
                put(&mut out, address.to_string().as_bytes());
            }
            Self::Listener(Address::Unix(path)) => {
                out.put_u8(b'U');
                put(&mut out, path.as_os_str().as_encoded_bytes());
            }
            Self::Takeover => out.put_u8(b'T'),
            Self::AllListeners => out.put_u8(b'E'),
            Self::Ready { version } => {
                out.put_u8(b'R');
                out.put_u32(*version);
            }
            Self::Keep => out.put_u8(b'M'),
            Self::Held(held) => {
                out.put_u8(b'H');
                out.put_u8(u8::from(held.all_paused));
                put_texts(&mut out, &held.paused);
                put_texts(&mut out, &held.disabled);
                put_pairs(&mut out, &held.settings);
                put_pairs(&mut out, &held.mirrors);
            }
            Self::Prepared => out.put_u8(b'P'),
            Self::Taken => out.put_u8(b'A'),
            Self::Gone => out.put_u8(b'G'),
            Self::Client(client) => {
                out.put_u8(b'C');
                client.write(&mut out);
            }
            Self::Adopted(key) => {
                out.put_u8(b'D');
                put_key(&mut out, *key);
            }
            Self::Stays(key) => {
                out.put_u8(b'S');
                put_key(&mut out, *key);
            }
            Self::Cancel(key) => {
                out.put_u8(b'K');
                put_key(&mut out, *key);
            }
        }
        out
    }

    /// `None`: it is none of these, for example one of another version.
    fn read(mut from: Bytes) -> Option<Self> {
        let from = &mut from;
        let message = match from.try_get_u8().ok()? {
            b'V' => Self::Hello {
                version: from.try_get_u32().ok()?,
            },
            b'I' => Self::Listener(Address::Inet(text(from)?.parse().ok()?)),
            b'U' => Self::Listener(Address::Unix(PathBuf::from(text(from)?))),
            b'T' => Self::Takeover,
            b'E' => Self::AllListeners,
            b'R' => Self::Ready {
                version: from.try_get_u32().ok()?,
            },
            b'M' => Self::Keep,
            b'H' => Self::Held(Said {
                all_paused: flag(from)?,
                paused: texts(from)?,
                disabled: texts(from)?,
                settings: pairs(from, text)?,
                mirrors: pairs(from, text)?,
            }),
            b'P' => Self::Prepared,
            b'A' => Self::Taken,
            b'G' => Self::Gone,
            b'C' => Self::Client(Box::new(ClientState::read(from)?)),
            b'D' => Self::Adopted(key(from)?),
            b'S' => Self::Stays(key(from)?),
            b'K' => Self::Cancel(key(from)?),
            _ => return None,
        };
        from.is_empty().then_some(message)
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
            followed: vec![pair("jit", "off")],
            statements: vec![(Bytes::new(), Bytes::from_static(b"select 1\0\0\0"))],
            key: CancelKey {
                number: 7,
                secret: -1,
            },
            password: Some(Secret::of(b"md5")),
            keys: Some((Secret::of(b"client"), Secret::of(b"server"))),
        }
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        for message in [
            Message::Listener(Address::Inet(([127, 0, 0, 1], 6432).into())),
            Message::Listener(Address::Unix("/run/.s.PGSQL.6432".into())),
            Message::Hello { version: VERSION },
            Message::Takeover,
            Message::AllListeners,
            Message::Ready { version: 7 },
            Message::Keep,
            Message::Held(Said {
                all_paused: true,
                paused: vec!["a".into(), "b".into()],
                disabled: vec!["c".into()],
                settings: vec![("query_timeout".into(), "7".into())],
                mirrors: vec![("a".into(), String::new())],
            }),
            Message::Prepared,
            Message::Taken,
            Message::Gone,
            Message::Client(Box::new(client())),
            Message::Client(Box::default()),
            Message::Adopted(client().key),
            Message::Stays(client().key),
            Message::Cancel(CancelKey {
                number: 1,
                secret: i32::MIN,
            }),
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
}
