//! `bpfdb checkpoint`: has a running server make a checkpoint, and waits for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::bars::Progress;
use crate::output;

/// Between two looks at how far it is.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Args)]
pub(crate) struct Arguments {
    /// Address of the server
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_name = "ADDRESS")]
    host: IpAddr,
    /// Port of the server
    #[arg(long, short, default_value_t = 6379, value_name = "N")]
    port: u16,
    /// File whose first line is the password
    #[arg(long, value_name = "FILE")]
    password_file: Option<std::path::PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut server = Server::connect(SocketAddr::new(arguments.host, arguments.port))?;
    if let Some(path) = &arguments.password_file {
        let file = std::fs::read_to_string(path);
        let file = file.with_context(|| format!("cannot read {}", path.display()))?;
        server.ask(&["AUTH", file.lines().next().unwrap_or_default()])?;
    }
    let before = server.figures()?;
    // One that is being made began before: it does not have what was written since.
    server.ask(&["BGSAVE", "SCHEDULE"])?;
    let wanted = before.attempts + 1 + u64::from(before.running);
    let bar = Progress::count("keys", before.total);
    let last = loop {
        let now = server.figures()?;
        bar.length(now.total);
        bar.at(now.done);
        if now.attempts >= wanted {
            break now;
        }
        thread::sleep(PAUSE);
    };
    drop(bar);
    if !last.is_fine {
        bail!("the checkpoint failed: the server's log says why");
    }
    output::print(&format!(
        "checkpoint of {} keys, {} bytes\n",
        last.entries, last.bytes
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// What INFO says of checkpoints.
struct Figures {
    running: bool,
    is_fine: bool,
    attempts: u64,
    done: u64,
    total: u64,
    entries: u64,
    bytes: u64,
}

struct Server(BufReader<TcpStream>);

impl Server {
    fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address);
        let stream = stream.with_context(|| format!("no server answers at {address}"))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// The reply to a command, if it is no error.
    fn ask(&mut self, words: &[&str]) -> Result<String> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let line = line.trim_end();
        if let Some(error) = line.strip_prefix('-') {
            bail!("the server says: {error}");
        }
        let Some(len) = line.strip_prefix('$') else {
            return Ok(line.to_owned());
        };
        let mut text = vec![0; len.parse::<usize>().context("a reply without a length")? + 2];
        self.0.read_exact(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn figures(&mut self) -> Result<Figures> {
        let text = self.ask(&["INFO", "persistence"])?;
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(known, _)| *known == name).map(|found| found.1)
        };
        let number = |name| field(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(Figures {
            running: number("rdb_bgsave_in_progress") > 0,
            is_fine: field("rdb_last_bgsave_status") == Some("ok"),
            attempts: number("checkpoint_attempts"),
            done: number("current_save_keys_processed"),
            total: number("current_save_keys_total"),
            entries: number("checkpoint_entries"),
            bytes: number("checkpoint_bytes"),
        })
    }
}
