//! The program, with a file of PgBouncer.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::postgres;
use crate::wire::{Wire, error, kinds, start_packet_for};

/// Who uses the console.
const OPERATOR: &str = "operator";

/// A proxy as a process of its own. It is killed when it is dropped.
pub(crate) struct Program {
    pub(crate) port: u16,
    folder: TempDir,
    child: Child,
    /// Its log, without what has been read.
    log: BufReader<std::process::ChildStderr>,
}

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_bpfdb-proxy"))
}

impl Program {
    /// With a file of these sections; `{port}` in it is that of the tests' PostgreSQL.
    pub(crate) fn start(file: &str) -> Self {
        Self::with(file, |_, _| {})
    }

    /// `change`: has other arguments, with files in the folder.
    fn with(file: &str, change: impl FnOnce(&mut Command, &Path)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let users = format!("\"{}\" \"\"\n\"{OPERATOR}\" \"\"\n", postgres::USER);
        fs::write(folder.path().join("users.txt"), users).expect("written");
        let mut child = command();
        child.arg(folder.path().join("pgbouncer.ini"));
        child.args(["--listen", "127.0.0.1:0"]);
        change(&mut child, folder.path());
        let file = format!("{file}\n[pgbouncer]\nunix_socket_dir =\n");
        fs::write(folder.path().join("pgbouncer.ini"), filled(&file, &folder)).expect("written");
        child.stderr(Stdio::piped());
        bpfdb_tests::process::dies_with_us(&mut child);
        let mut child = child.spawn().expect("it starts");
        let log = BufReader::new(child.stderr.take().expect("its log"));
        let mut program = Self {
            port: 0,
            folder,
            child,
            log,
        };
        let ready = program.logged("ready address=");
        let (_, port) = ready.trim().rsplit_once(':').expect("an address");
        program.port = port.parse().expect("a port");
        program
    }

    pub(crate) fn client(&self) -> Wire {
        Wire::connect(self.port, postgres::USER, &[])
    }

    pub(crate) fn write(&self, file: &str) {
        let file = filled(file, &self.folder);
        fs::write(self.folder.path().join("pgbouncer.ini"), file).expect("written");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("sent");
    }

    /// Waits until it has ended; has it done so as it should?
    pub(crate) fn ended(mut self) -> bool {
        self.child.wait().expect("its end").success()
    }

    /// The next line of the log that has this in it.
    fn logged(&mut self, part: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.log.read_line(&mut line).expect("its log");
            assert!(read > 0, "it ended before it said {part}");
            if line.contains(part) {
                return line;
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// With the file of users, whom PgBouncer has to know.
fn filled(file: &str, folder: &TempDir) -> String {
    let file = file.replace("{port}", &postgres::shared().port.to_string());
    let users = folder.path().join("users.txt");
    format!("{file}\n[pgbouncer]\nauth_file = {}\n", users.display())
}

/// What a client hears that asks for the database with nothing but its name; empty: it is admitted.
fn told(program: &Program, user: &str, database: &str) -> String {
    let mut wire = Wire::open(program.port);
    wire.send(&start_packet_for(user, database, &[]));
    let messages = wire.until(b'Z');
    if kinds(&messages).ends_with('Z') {
        return String::new();
    }
    error(&messages, b'M')
}

#[test]
fn rules_of_a_flag_stay_when_a_setting_changes() {
    let file = format!(
        "[databases]\npostgres = host=127.0.0.1 port={{port}}\n[pgbouncer]\nadmin_users = {OPERATOR}\n"
    );
    let program = Program::with(&file, |command, folder| {
        let rules = folder.join("rules");
        let text = format!("host all {OPERATOR} all trust\nhost all all all reject\n");
        fs::write(&rules, text).expect("written");
        command.arg("--auth-hba-file").arg(rules);
    });
    let is_rejected = || told(&program, postgres::USER, "postgres").contains("rejects connection");
    assert!(is_rejected());
    let mut console = Wire::connect_to(program.port, OPERATOR, "pgbouncer");
    assert_eq!(kinds(&console.query("SET auth_query_cache = 7")), "CZ");
    assert!(is_rejected());
}

#[test]
fn a_file_of_pgbouncer_has_users_be_known() {
    let file = |auth_type: &str| {
        format!(
            "[databases]\npostgres = host=127.0.0.1 port={{port}}\n\
             forced = host=127.0.0.1 port={{port}} dbname=postgres user={}\n\
             [pgbouncer]\nadmin_users = stranger,{OPERATOR}\nauth_type = {auth_type}\n",
            postgres::USER
        )
    };
    let program = Program::start(&file("trust"));
    assert_eq!(told(&program, postgres::USER, "postgres"), "");
    assert_eq!(told(&program, OPERATOR, "pgbouncer"), "");
    for database in ["postgres", "forced", "pgbouncer"] {
        let told = told(&program, "stranger", database);
        assert_eq!(told, "no such user: stranger", "{database}");
    }
    let program = Program::start(&file("any"));
    assert_eq!(told(&program, "stranger", "forced"), "");
    let told = told(&program, postgres::USER, "postgres");
    assert!(told.contains("needs a database with a user"), "{told}");
}

#[test]
fn a_file_of_pgbouncer_is_served_as_it_says() {
    let program = Program::start(
        "[databases]\n\
         postgres = host=127.0.0.1 port={port} timezone=Asia/Tokyo connect_query='set work_mem = 1234'\n\
         [pgbouncer]\nauth_type = trust\npool_mode = session\npkt_buf = 8192\n",
    );
    let mut wire = Wire::connect(program.port, postgres::USER, &[]);
    assert_eq!(wire.value("show timezone"), "Asia/Tokyo");
    assert_eq!(wire.value("show work_mem"), "1234kB");
    let process = wire.value("select pg_backend_pid()");
    assert_eq!(wire.value("select pg_backend_pid()"), process);
}

#[test]
fn what_has_no_effect_is_said_with_its_place() {
    let file = "[pgbouncer]\nauth_type = trust\npkt_buf = 8192\n[databases]\n";
    let mut said = command();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pgbouncer.ini");
    // It ends after its warning, since it cannot listen there.
    fs::write(&path, file).expect("written");
    said.arg(&path).args(["--listen", "192.0.2.1:1"]);
    let output = said.output().expect("it runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(
        log.contains("pgbouncer.ini:3: pkt_buf has no effect"),
        "{log}"
    );
}

#[test]
fn what_is_unknown_ends_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pgbouncer.ini");
    for (text, told) in [
        (
            "[pgbouncer]\nnothing = 1\n",
            "pgbouncer.ini:2: nothing is not known",
        ),
        (
            "[pgbouncer]\nunix_socket_dir =\n",
            "neither listen_addr nor unix_socket_dir is set",
        ),
    ] {
        fs::write(&file, text).expect("written");
        let output = command().arg(&file).output().expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains(told),
            "{errors}"
        );
    }
}

#[test]
fn a_connect_query_that_fails_is_told() {
    let program = Program::start(
        "[databases]\npostgres = host=127.0.0.1 port={port} connect_query='select nothing'\n\
         [pgbouncer]\nauth_type = trust\npool_mode = transaction\n",
    );
    let mut client = program.client();
    let told = client.query("select 1");
    assert_eq!(error(&told, b'M'), "the server refuses connect_query");
}
