//! A connection that asks a server about itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::tcp::Server;

/// Longer than a checkpoint of everything takes.
const PATIENCE: Duration = Duration::from_secs(600);
/// Between two looks at whether it is over.
const PAUSE: Duration = Duration::from_millis(5);

pub(super) struct Client(BufReader<TcpStream>);

impl Client {
    pub(super) fn new(server: &Server) -> Result<Self> {
        let stream = server.connect()?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// The reply to a command: a line, a text, or several of them, one a line. Errors of the
    /// server are errors.
    pub(super) fn ask(&mut self, words: &[&str]) -> Result<String> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(request.as_bytes())?;
        self.reply().with_context(|| words.join(" "))
    }

    fn reply(&mut self) -> Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let line = line.trim_end();
        match line.split_at_checked(1) {
            Some(("-", error)) => bail!("the server says {error}"),
            Some(("$", length)) => self.text(length.parse()?),
            Some(("*", count)) => {
                let replies = (0..count.parse()?).map(|_| self.reply());
                Ok(replies.collect::<Result<Vec<_>>>()?.join("\n"))
            }
            _ => Ok(line.to_owned()),
        }
    }

    fn text(&mut self, length: usize) -> Result<String> {
        let mut text = vec![0; length + 2];
        self.0.read_exact(&mut text)?;
        Ok(String::from_utf8_lossy(&text[..length]).into_owned())
    }

    /// A figure of INFO persistence.
    pub(super) fn figure(&mut self, name: &str) -> Result<u64> {
        self.figure_of("persistence", name)
    }

    /// A figure of a section of INFO.
    pub(super) fn figure_of(&mut self, section: &str, name: &str) -> Result<u64> {
        let text = self.ask(&["INFO", section])?;
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        let found = fields.find(|(known, _)| *known == name);
        let (_, figure) = found.with_context(|| format!("INFO has no {name}"))?;
        figure
            .trim()
            .parse()
            .with_context(|| format!("{name}: {figure}"))
    }
}

/// Has the server make a checkpoint, and waits for it: what was written before costs nothing
/// afterwards.
pub(crate) fn checkpoint(server: &Server) -> Result<()> {
    Client::new(server)?.ask(&["SAVE"]).map(drop)
}

/// Microseconds of the fork of Redis's last BGSAVE.
pub(super) fn last_fork(client: &mut Client) -> Result<f64> {
    Ok(client.figure_of("stats", "latest_fork_usec")? as f64)
}

/// Has a Redis save: microseconds of its fork.
pub(crate) fn fork_of_bgsave(server: &Server) -> Result<f64> {
    let mut client = Client::new(server)?;
    client.ask(&["BGSAVE"])?;
    let micros = last_fork(&mut client)?;
    while client.figure("rdb_bgsave_in_progress")? > 0 {
        thread::sleep(PAUSE);
    }
    Ok(micros)
}
