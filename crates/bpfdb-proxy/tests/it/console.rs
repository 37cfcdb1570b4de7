//! The console, beside PgBouncer's.

use std::fs;
use std::os::unix::fs::chown;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_tests::process::dies_with_us;
use tempfile::TempDir;

use crate::configuration::Program;
use crate::postgres;
use crate::proxy::{TestProxy, WAYS, Way};
use crate::wire::{Message, Wire, error, kinds, query, rows};

pub(crate) const ADMIN: &str = "operator";
const STATS: &str = "watcher";
const PGBOUNCER: &str = "/usr/sbin/pgbouncer";
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn start(way: Way, servers: usize) -> TestProxy {
    TestProxy::with(way, |settings| {
        settings.default_pool_size = servers;
        settings.administration.admin_users = vec![ADMIN.into()];
        settings.administration.stats_users = vec![STATS.into()];
    })
}

pub(crate) fn console(port: u16, user: &str) -> Wire {
    Wire::connect_to(port, user, "pgbouncer")
}

/// The value of a column in the rows whose first values are these.
pub(crate) fn shown(console: &mut Wire, what: &str, first: &[&str], column: &str) -> Vec<String> {
    let messages = console.query(&format!("SHOW {what}"));
    let names = columns(&messages);
    let at = names.iter().position(|name| name == column);
    let at = at.unwrap_or_else(|| panic!("{what} has no {column}: {names:?}"));
    let is_it = |row: &Vec<String>| first.iter().zip(row).all(|(wanted, value)| wanted == value);
    let rows = rows(&messages).into_iter().filter(is_it);
    rows.map(|mut row| row.swap_remove(at)).collect()
}

/// The names of a RowDescription.
pub(crate) fn columns(messages: &[Message]) -> Vec<String> {
    let (_, body) = messages
        .iter()
        .find(|(kind, _)| *kind == b'T')
        .expect("columns");
    let (mut rest, mut names) = (&body[2..], Vec::new());
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        names.push(String::from_utf8_lossy(&rest[..end]).into_owned());
        // What follows a name has 18 bytes.
        rest = &rest[end + 19..];
    }
    names
}

pub(crate) fn await_shown(
    console: &mut Wire,
    what: &str,
    first: &[&str],
    column: &str,
    value: &str,
) {
    let begun = Instant::now();
    loop {
        let found = shown(console, what, first, column);
        if found == [value] {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} {column}: {found:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// PgBouncer itself, before the same database.
struct PgBouncer {
    port: u16,
    child: Child,
    _folder: TempDir,
}

impl PgBouncer {
    /// `None`: another version than the one whose console ours is like.
    fn start() -> Option<Self> {
        let said = Command::new(PGBOUNCER)
            .arg("--version")
            .output()
            .expect("pgbouncer");
        if !String::from_utf8_lossy(&said.stdout).starts_with("PgBouncer 1.18.") {
            eprintln!("not compared: {}", String::from_utf8_lossy(&said.stdout));
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let user = postgres::user();
        let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
        chown(folder.path(), Some(uid), Some(gid)).expect("given away");
        let file = folder.path().join("pgbouncer.ini");
        let port = postgres::free_port();
        let database = postgres::shared().port;
        let text = format!(
            "[databases]\npostgres = host=127.0.0.1 port={database}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\nadmin_users = {ADMIN}\n"
        );
        fs::write(&file, text).expect("written");
        chown(&file, Some(uid), Some(gid)).expect("given away");
        let mut command = postgres::as_user(PGBOUNCER.as_ref());
        command
            .arg(&file)
            .stderr(Stdio::null())
            .stdout(Stdio::null());
        let child = dies_with_us(&mut command).spawn().expect("pgbouncer");
        let pgbouncer = Self {
            port,
            child,
            _folder: folder,
        };
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "pgbouncer does not start");
            thread::sleep(Duration::from_millis(20));
        }
        Some(pgbouncer)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const TABLES: [&str; 18] = [
    "ACTIVE_SOCKETS",
    "CLIENTS",
    "CONFIG",
    "DATABASES",
    "DNS_HOSTS",
    "DNS_ZONES",
    "FDS",
    "LISTS",
    "MEM",
    "POOLS",
    "SERVERS",
    "SOCKETS",
    "STATS",
    "STATS_AVERAGES",
    "STATS_TOTALS",
    "TOTALS",
    "USERS",
    "VERSION",
];

#[test]
fn columns_are_those_of_pgbouncer() {
    let (proxy, Some(pgbouncer)) = (start(Way::Plain, 2), PgBouncer::start()) else {
        return;
    };
    let _client = proxy.client();
    let mut ours = console(proxy.port, ADMIN);
    let mut theirs = console(pgbouncer.port, ADMIN);
    let described = |wire: &mut Wire, what: &str| {
        let messages = wire.query(&format!("SHOW {what}"));
        let of_kind = |wanted: u8| {
            let bodies = messages.iter().filter(move |(kind, _)| *kind == wanted);
            bodies.map(|(_, body)| body.clone()).collect::<Vec<_>>()
        };
        (of_kind(b'T'), of_kind(b'C'))
    };
    for what in TABLES {
        let (mine, wanted) = (described(&mut ours, what), described(&mut theirs, what));
        assert_eq!(mine, wanted, "{what}");
        assert!(!mine.0.is_empty(), "{what}");
    }
    let names = |wire: &mut Wire, what: &str| -> Vec<String> {
        let rows = wire.rows(&format!("SHOW {what}")).into_iter();
        rows.map(|mut row| row.swap_remove(0)).collect()
    };
    for what in ["LISTS", "TOTALS"] {
        assert_eq!(names(&mut ours, what), names(&mut theirs, what), "{what}");
    }
    let mine = names(&mut ours, "CONFIG");
    let unknown: Vec<_> = names(&mut theirs, "CONFIG")
        .into_iter()
        .filter(|name| !mine.contains(name))
        .collect();
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn errors_are_those_of_pgbouncer() {
    let (proxy, Some(pgbouncer)) = (start(Way::Plain, 2), PgBouncer::start()) else {
        return;
    };
    let mut ours = console(proxy.port, ADMIN);
    let mut theirs = console(pgbouncer.port, ADMIN);
    for command in [
        "SHOW nothing",
        "",
        "selct 1",
        "RESUME",
        "KILL",
        "DISABLE",
        "SET nothing = 1",
        "RESUME postgres",
        "SHOW POOLS; SHOW POOLS",
        "PAUSE",
        "PAUSE",
        "RESUME",
        "SET default_pool_size=7",
        "DISABLE postgres",
        "ENABLE postgres",
        "RECONNECT",
        "KILL postgres",
        "RESUME postgres",
        "RELOAD",
        "WAIT_CLOSE",
    ] {
        let told = |wire: &mut Wire| {
            let messages = wire.query(command);
            let fields = |field| {
                kinds(&messages)
                    .contains('E')
                    .then(|| error(&messages, field))
            };
            let tag = messages.iter().find(|(kind, _)| *kind == b'C').cloned();
            (kinds(&messages), fields(b'C'), fields(b'M'), tag)
        };
        assert_eq!(told(&mut ours), told(&mut theirs), "{command}");
    }
    let value = shown(&mut ours, "CONFIG", &["default_pool_size"], "value");
    assert_eq!(value, ["7"]);
}

#[test]
fn only_operators_enter_and_only_some_change_anything() {
    let proxy = start(Way::Plain, 2);
    let mut stranger = Wire::open(proxy.port);
    stranger.send(&crate::wire::start_packet_for("stranger", "pgbouncer", &[]));
    assert_eq!(error(&stranger.until(0), b'M'), "not allowed");
    let mut watcher = console(proxy.port, STATS);
    assert_eq!(watcher.rows("SHOW POOLS").len(), 1);
    assert_eq!(error(&watcher.query("PAUSE"), b'M'), "admin access needed");
    // An extended query is refused once, and the session goes on.
    let extended = [crate::wire::parse("", "SHOW POOLS"), crate::wire::sync()].concat();
    watcher.send(&extended);
    assert_eq!(kinds(&watcher.until(b'Z')), "EZ");
    assert_eq!(watcher.rows("show version").len(), 1);
}

#[test]
fn what_the_kernel_has_served_is_counted_too() {
    for way in WAYS {
        let proxy = start(way, 2);
        let mut client = proxy.client();
        let mut bytes = 0;
        let mut ask = |text: &str| {
            bytes += query(text).len();
            client.query(text)
        };
        for _ in 0..20 {
            // A client goes back to the kernel a moment after the process has served it.
            thread::sleep(Duration::from_millis(5));
            ask("select 1");
        }
        ask("begin");
        ask("select pg_sleep(0.05)");
        ask("commit");
        let mut console = console(proxy.port, ADMIN);
        let mut total = |column: &str| -> u64 {
            let found = shown(&mut console, "STATS_TOTALS", &["postgres"], column);
            found[0].parse().expect("a number")
        };
        assert_eq!(total("query_count"), 23, "{way:?}");
        assert_eq!(total("xact_count"), 21, "{way:?}");
        assert_eq!(total("bytes_received"), bytes as u64, "{way:?}");
        assert!(total("bytes_sent") > 23 * 6, "{way:?}");
        let (query_time, xact_time) = (total("query_time"), total("xact_time"));
        assert!(
            (50_000..20_000_000).contains(&query_time),
            "{way:?}: {query_time}"
        );
        assert!(
            xact_time >= query_time,
            "{way:?}: {xact_time} < {query_time}"
        );
        proxy.brought(1);
    }
}

#[test]
fn what_clients_and_servers_do_is_shown() {
    for way in WAYS {
        let proxy = start(way, 1);
        let (mut one, mut two) = (proxy.client(), proxy.client());
        assert_eq!(one.value("select 1"), "1");
        let mut console = console(proxy.port, ADMIN);
        let first = ["postgres", postgres::USER];
        await_shown(&mut console, "POOLS", &first, "sv_idle", "1");
        one.query("begin");
        two.send(&query("select 2"));
        await_shown(&mut console, "POOLS", &first, "cl_waiting", "1");
        await_shown(&mut console, "POOLS", &first, "cl_active", "1");
        await_shown(&mut console, "POOLS", &first, "sv_active", "1");
        await_shown(&mut console, "POOLS", &first, "sv_idle", "0");
        let client = ["C", postgres::USER, "postgres"];
        let mut states = shown(&mut console, "CLIENTS", &client, "state");
        states.sort();
        assert_eq!(states, ["active", "waiting"], "{way:?}");
        let servers = ["S", postgres::USER, "postgres", "active"];
        let link = shown(&mut console, "SERVERS", &servers, "link");
        let active = ["C", postgres::USER, "postgres", "active"];
        assert_eq!(
            shown(&mut console, "CLIENTS", &active, "ptr"),
            link,
            "{way:?}"
        );
        one.query("commit");
        assert_eq!(rows(&two.until(b'Z')), [["2"]], "{way:?}");
        await_shown(&mut console, "POOLS", &first, "cl_waiting", "0");
        let waited = shown(&mut console, "STATS_TOTALS", &["postgres"], "wait_time");
        assert_ne!(waited, ["0"], "{way:?}");
    }
}

const PROCESS: &str = "select pg_backend_pid()";

#[test]
fn a_database_is_paused_when_its_transactions_are_over() {
    for way in WAYS {
        let proxy = start(way, 2);
        let (mut one, mut two) = (proxy.client(), proxy.client());
        two.value("select 1");
        one.query("begin");
        let process = one.value(PROCESS);
        let (mut pauses, mut looks) = (console(proxy.port, ADMIN), console(proxy.port, ADMIN));
        pauses.send(&query("PAUSE postgres"));
        await_shown(&mut looks, "DATABASES", &["postgres"], "paused", "1");
        await_shown(
            &mut looks,
            "DATABASES",
            &["postgres"],
            "current_connections",
            "1",
        );
        two.send(&query("select 2"));
        let pool = ["postgres", postgres::USER];
        await_shown(&mut looks, "POOLS", &pool, "cl_waiting", "1");
        assert_eq!(one.value(PROCESS), process, "{way:?}");
        one.query("commit");
        assert_eq!(kinds(&pauses.until(b'Z')), "CZ", "{way:?}");
        await_shown(
            &mut looks,
            "DATABASES",
            &["postgres"],
            "current_connections",
            "0",
        );
        looks.query("RESUME postgres");
        assert_eq!(rows(&two.until(b'Z')), [["2"]], "{way:?}");
        assert_ne!(one.value(PROCESS), process, "{way:?}");
    }
}

#[test]
fn servers_are_replaced_when_they_are_free() {
    for way in WAYS {
        let proxy = start(way, 2);
        let (mut one, mut two) = (proxy.client(), proxy.client());
        one.query("begin");
        let (first, second) = (one.value(PROCESS), two.value(PROCESS));
        let mut console = console(proxy.port, ADMIN);
        assert_eq!(kinds(&console.query("RECONNECT")), "CZ");
        console.send(&query("WAIT_CLOSE postgres"));
        assert_eq!(one.value(PROCESS), first, "{way:?}");
        one.query("commit");
        assert_eq!(kinds(&console.until(b'Z')), "CZ", "{way:?}");
        for wire in [&mut one, &mut two] {
            let now = wire.value(PROCESS);
            assert!(now != first && now != second, "{way:?}");
        }
    }
}

#[test]
fn a_database_is_killed_and_disabled() {
    for way in WAYS {
        let proxy = start(way, 2);
        let mut client = proxy.client();
        client.query("begin");
        let mut console = console(proxy.port, ADMIN);
        assert_eq!(kinds(&console.query("KILL postgres")), "CZ");
        assert_eq!(error(&client.until(0), b'C'), "57P01", "{way:?}");
        await_shown(
            &mut console,
            "DATABASES",
            &["postgres"],
            "current_connections",
            "0",
        );
        console.query("RESUME postgres");
        console.query("DISABLE postgres");
        let mut refused = Wire::open(proxy.port);
        refused.send(&crate::wire::start_packet(postgres::USER, &[]));
        assert_eq!(
            error(&refused.until(0), b'M'),
            "database \"postgres\" is disabled"
        );
        console.query("ENABLE postgres");
        assert_eq!(proxy.client().value("select 1"), "1", "{way:?}");
        console.send(&query("SHUTDOWN"));
        console.until(0);
    }
}

#[test]
fn a_file_is_read_again_while_clients_stay() {
    let file = |zone: &str, more: &str| {
        format!(
            "[databases]\npostgres = host=127.0.0.1 port={{port}} timezone={zone}\n[pgbouncer]\nauth_type = trust\n\
             admin_users = {ADMIN}\npool_mode = transaction\nunix_socket_dir =\n{more}"
        )
    };
    let program = Program::start(&file("Asia/Tokyo", ""));
    let mut client = Wire::connect(program.port, postgres::USER, &[]);
    assert_eq!(client.value("show timezone"), "Asia/Tokyo");
    let process = client.value(PROCESS);
    let mut console = console(program.port, ADMIN);
    program.write(&file("UTC", "max_client_conn = 77\n"));
    assert_eq!(kinds(&console.query("RELOAD")), "CZ");
    let value = shown(&mut console, "CONFIG", &["max_client_conn"], "value");
    assert_eq!(value, ["77"]);
    // On a new server; the client keeps the zone that it was told.
    assert_ne!(client.value(PROCESS), process);
    assert_eq!(client.value("show timezone"), "Asia/Tokyo");
    assert_eq!(program.client().value("show timezone"), "UTC");
    program.write(&file("UTC", "max_client_cnn = 77\n"));
    let told = console.query("RELOAD");
    assert!(
        error(&told, b'M').ends_with("max_client_cnn is not known"),
        "{told:?}"
    );
    program.write(&file("UTC", "max_client_conn = 78\n"));
    program.signal(nix::sys::signal::Signal::SIGHUP);
    await_shown(&mut console, "CONFIG", &["max_client_conn"], "value", "78");
    // A database that is gone ends its clients.
    program.write("[databases]\n[pgbouncer]\nauth_type = trust\nunix_socket_dir =\n");
    program.signal(nix::sys::signal::Signal::SIGHUP);
    assert_eq!(error(&client.until(0), b'C'), "57P01");
    // And takes no more.
    let mut late = Wire::open(program.port);
    late.send(&crate::wire::start_packet(postgres::USER, &[]));
    assert_eq!(error(&late.until(b'Z'), b'C'), "3D000");
}

#[test]
fn servers_are_replaced_when_tls_with_them_changes() {
    const BY_TLS: &str = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    let file = format!(
        "[databases]\npostgres = host=127.0.0.1 port={{port}}\n[pgbouncer]\nauth_type = trust\n\
         admin_users = {ADMIN}\npool_mode = transaction\n"
    );
    let program = Program::start(&file);
    let mut client = program.client();
    assert_eq!(client.value(BY_TLS), "f");
    let mut console = console(program.port, ADMIN);
    assert_eq!(
        kinds(&console.query("SET server_tls_sslmode = require")),
        "CZ"
    );
    assert_eq!(client.value(BY_TLS), "t");
}
