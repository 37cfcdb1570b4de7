//! A small client: requests in pipelines, replies of RESP2.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// After so long without a reply the server hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Keys that one SCAN looks at.
const SCAN_COUNT: &str = "1000";

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// What a server says, errors excepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Nil,
    Integer(i64),
    Text(String),
    Array(Vec<Reply>),
}

impl Reply {
    pub fn integer(&self) -> Result<i64> {
        match self {
            Self::Integer(number) => Ok(*number),
            other => bail!("{other:?} is no integer"),
        }
    }

    pub fn text(&self) -> Result<&str> {
        match self {
            Self::Text(text) => Ok(text),
            other => bail!("{other:?} is no text"),
        }
    }

    pub fn array(&self) -> Result<&[Self]> {
        match self {
            Self::Array(items) => Ok(items),
            other => bail!("{other:?} is no array"),
        }
    }

    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }
}

trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// A connection.
pub struct Client(BufReader<Patient>);

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    pub fn connect(address: &Address) -> Result<Self> {
        let stream: Box<dyn Stream> = match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).context("connect")?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).context("connect")?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
        };
        Ok(Self(BufReader::new(Patient(stream))))
    }

    pub fn send(&mut self, requests: &[u8]) -> Result<()> {
        self.0.get_mut().0.write_all(requests).context("send")
    }

    /// Sends a command; its reply.
    pub fn ask(&mut self, words: &[&str]) -> Result<Reply> {
        let mut request = Vec::new();
        command(&mut request, words);
        self.send(&request)?;
        self.reply().with_context(|| words[0].to_owned())
    }

    /// The next reply; an error of the server is an error.
    pub fn reply(&mut self) -> Result<Reply> {
        let mut line = Vec::new();
        let got = self.0.read_until(b'\n', &mut line).context("receive")?;
        ensure!(got > 0, "the server has closed the connection");
        let line = String::from_utf8(line)?;
        let line = line.trim_end();
        let (kind, rest) = line.split_at_checked(1).context("an empty line")?;
        Ok(match kind {
            "-" => bail!("the server says {rest}"),
            "+" => Reply::Text(rest.into()),
            ":" => Reply::Integer(rest.parse()?),
            "$" | "*" if rest == "-1" => Reply::Nil,
            "$" => {
                let mut text = vec![0; rest.parse::<usize>()? + 2];
                self.0.read_exact(&mut text).context("receive")?;
                text.truncate(text.len() - 2);
                Reply::Text(String::from_utf8(text)?)
            }
            "*" => {
                let items = (0..rest.parse::<usize>()?).map(|_| self.reply());
                Reply::Array(items.collect::<Result<_>>()?)
            }
            _ => bail!("no reply: {line}"),
        })
    }

    /// Sends requests and takes in as many replies, all of them OK.
    pub fn all_ok(&mut self, requests: &[u8], count: usize) -> Result<()> {
        self.send(requests)?;
        for _ in 0..count {
            let reply = self.reply()?;
            ensure!(
                reply == Reply::Text("OK".into()),
                "{reply:?} in place of OK"
            );
        }
        Ok(())
    }

    /// All keys with this beginning, and their values.
    pub fn all(&mut self, beginning: &str) -> Result<BTreeMap<String, String>> {
        let pattern = format!("{beginning}*");
        let mut found = BTreeMap::new();
        let mut cursor = "0".to_owned();
        loop {
            let page = self.ask(&["SCAN", &cursor, "MATCH", &pattern, "COUNT", SCAN_COUNT])?;
            let [next, keys] = page.array()? else {
                bail!("SCAN says {page:?}");
            };
            let keys = keys.array()?.iter().map(Reply::text);
            let keys = keys.collect::<Result<Vec<&str>>>()?;
            if !keys.is_empty() {
                let values = self.ask(&[&["MGET"], &keys[..]].concat())?;
                for (key, value) in keys.iter().zip(values.array()?) {
                    // It may have expired in between.
                    if let Reply::Text(value) = value {
                        found.insert(key[beginning.len()..].to_owned(), value.clone());
                    }
                }
            }
            cursor = next.text()?.to_owned();
            if cursor == "0" {
                return Ok(found);
            }
        }
    }

    /// The same, where all values are numbers.
    pub fn all_numbers(&mut self, beginning: &str) -> Result<BTreeMap<String, i64>> {
        let number = |(key, value): (String, String)| {
            let number = value.parse().with_context(|| format!("{key}: {value}"))?;
            Ok((key, number))
        };
        self.all(beginning)?.into_iter().map(number).collect()
    }

    /// FUNCTION LOAD, in the place of the library that was there.
    pub fn load_library(&mut self, text: &str) -> Result<()> {
        self.ask(&["FUNCTION", "LOAD", "REPLACE", text]).map(drop)
    }
}

/// Adds a request.
pub fn command(to: &mut Vec<u8>, words: &[&str]) {
    to.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        to.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

/// Reads on when a read ends early: a socket in a map of sockets says that it has no data when
/// it was woken up for anything else.
struct Patient(Box<dyn Stream>);

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let start = Instant::now();
        loop {
            match self.0.read(buffer) {
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock && start.elapsed() < PATIENCE => {}
                done => return done,
            }
        }
    }
}
