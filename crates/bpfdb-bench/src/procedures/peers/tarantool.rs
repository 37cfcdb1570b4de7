//! Tarantool: memtx, without a log, and procedures in Lua. Its client is that of all servers,
//! with requests of its binary protocol.

use std::env;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bpfdb_apps::voter::CONTESTANTS;
use tempfile::TempDir;

use super::iproto::{GREETING, Gained, Packets, call, length, numbers};
use super::{calls, expect_gain};
use crate::plan::Plan;
use crate::procedures::calls::{BALANCE, Work};
use crate::procedures::{Calls, Contender, Measured};
use crate::tcp::{NetworkNamespace, Sent, Server, send};

const PROGRAM: &str = "tarantool";
const FILES: [(&str, &str); 4] = [
    ("server.lua", include_str!("server.lua")),
    ("voter.lua", include_str!("voter.lua")),
    ("smallbank.lua", include_str!("smallbank.lua")),
    ("tatp.lua", include_str!("tatp.lua")),
];
/// As much as bpfdb may use.
const MEMORY: u64 = 4 << 30;
const MEMORY_QUICK: u64 = 256 << 20;
/// Longer than filling takes.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct Tarantool {
    server: Server,
    /// What the server executes.
    _folder: TempDir,
}

impl Tarantool {
    pub(super) fn start(plan: &Plan) -> Result<Self> {
        let program = program()?;
        let output = Command::new(&program).arg("--version").output()?;
        let version = String::from_utf8_lossy(&output.stdout);
        // `Tarantool 2.6.0-0-g47aa4e01e`
        let name = version.split(['-', '\n']).next().unwrap_or_default();
        let folder = tempfile::tempdir().context("create a folder")?;
        for (name, text) in FILES {
            fs::write(folder.path().join(name), text).context("write a script")?;
        }
        let memory = if plan.quick { MEMORY_QUICK } else { MEMORY };
        let namespaces = [NetworkNamespace::here(), NetworkNamespace::here()];
        let arguments = |command: &mut Command, address: SocketAddr| {
            command.arg(folder.path().join("server.lua"));
            command.arg(folder.path()).arg(address.to_string());
            command.arg(memory.to_string());
        };
        let server = Server::start(name.into(), &program, &namespaces, answers, arguments)?;
        Ok(Self {
            server,
            _folder: folder,
        })
    }

    /// What a procedure returns.
    fn ask(&self, function: &str, arguments: &[i64]) -> Result<Vec<i64>> {
        let mut stream = self.server.connect()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        greeting(&mut stream)?;
        let mut request = Vec::new();
        call(&mut request, 0, function, arguments);
        stream.write_all(&request)?;
        let mut head = [0; 5];
        stream.read_exact(&mut head).context("receive a reply")?;
        let mut packet = vec![0; length(head)];
        stream.read_exact(&mut packet).context("receive a reply")?;
        numbers(&[&head[..], &packet].concat()).with_context(|| function.to_owned())
    }

    /// What calls add to, in each place where it can be seen.
    fn sums(&self, work: Work) -> Result<Vec<i64>> {
        self.ask(&format!("{}_sums", super::application(work)), &[])
    }

    fn fill(&self, work: Work, plan: &Plan) -> Result<()> {
        let (customers, contestants) = (Work::keys(plan).into(), CONTESTANTS.into());
        match work {
            Work::SmallBank => self.ask("smallbank_fill", &[customers, BALANCE]),
            Work::Tatp => self.ask("tatp_fill", &[customers]),
            _ => self.ask("voter_fill", &[contestants]),
        }
        .map(drop)
    }
}

impl Contender for Tarantool {
    fn name(&self) -> &str {
        &self.server.name
    }

    fn measure(&mut self, plan: &Plan, calls: Calls) -> Result<Option<Measured>> {
        self.fill(calls.work, plan)?;
        let before = self.sums(calls.work)?;
        let gained = Gained::new(calls::GAIN);
        let answer = send(&self.server, calls.clients(), calls.requests, |seed| {
            let write = calls::writer(calls.work, plan, seed);
            let gained = gained.clone();
            Sent::new(write, calls.pipeline, 1, move || {
                Packets::new(gained.clone())
            })
        })?;
        let [gain, changes] =
            [&gained.totals.sum, &gained.totals.changes].map(|total| total.load(Ordering::Relaxed));
        ensure!(changes > 0, "calls have changed nothing");
        expect_gain(&before, &self.sums(calls.work)?, gain)?;
        Ok(Some(answer.into()))
    }
}

fn program() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut programs = env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    let found = programs.find(|program| program.is_file());
    found.context("it is not installed: run scripts/setup.sh")
}

/// Whether it listens there: then it has all procedures.
fn answers(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok_and(|mut stream| greeting(&mut stream).is_ok())
}

fn greeting(stream: &mut TcpStream) -> Result<()> {
    let mut text = [0; GREETING];
    stream.read_exact(&mut text).context("be greeted")?;
    ensure!(text.starts_with(b"Tarantool"), "this is no Tarantool");
    Ok(())
}
