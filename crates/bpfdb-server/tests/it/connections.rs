//! Many connections, slow ones, and what is left when the server stops.

use bpfdb_tests::server as common;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use bpfdb_server::settings::{LocalClients, OutputLimit, OutputLimits, Secret, Settings, Size};
use bpfdb_server::{Options, Server};
use bpfdb_tests::namespace;
use bpfdb_tests::process::{dies_with_us, this_program};
use common::process::ServerProcess;
use common::{
    Client, PATIENCE, TestServer, bulk, cgroup, flood, is_incremented, is_refused, is_served,
    request, show, wait_until,
};

#[test]
fn a_thousand_connections() {
    let server = TestServer::shared();
    let mut clients: Vec<Client> = (0..1000).map(|_| server.client()).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        let key = format!("of{i}");
        client.send(&request(&[b"set", key.as_bytes(), b"x"]));
        client.send(&request(&[b"nonsense"]));
        client.send(&request(&[b"incr", b"of all"]));
    }
    let mut incremented = 0;
    for client in &mut clients {
        assert_eq!(client.reply(), b"+OK\r\n");
        assert!(client.reply().starts_with(b"-ERR unknown command"));
        incremented += u32::from(is_incremented(&client.reply()));
    }
    let counter = format!("{incremented}");
    let reply = server.client().ask(&[b"get", b"of all"]);
    assert_eq!(reply, bulk(counter.as_bytes()));
    assert!(incremented > 500, "{incremented}");
}

#[test]
fn connections_come_and_go() {
    let server = TestServer::shared();
    for round in 0..300 {
        let mut client = server.client();
        assert_eq!(client.say("ping"), "+PONG\r\n", "round {round}");
        if round % 3 == 0 {
            assert_eq!(client.say("select 0"), "+OK\r\n", "round {round}");
        }
    }
}

#[test]
fn too_many_connections() {
    let server = TestServer::start(&bpfdb::Options {
        // One is the log's.
        max_sessions: 3 + u32::from(bpfdb_tests::log::is_wanted()),
        ..bpfdb::Options::default()
    });
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        assert_eq!(client.say("ping"), "+PONG\r\n");
    }
    let mut refused = server.client();
    assert_eq!(refused.reply(), b"-ERR max number of clients reached\r\n");
    assert!(refused.is_closed());

    drop(clients.pop());
    wait_until("there is room again", || is_served(server.address));
}

/// A client that does not read cannot make the server keep its replies without
/// end; others are served meanwhile.
#[test]
fn a_client_that_does_not_read() {
    // The shortest reply has half the bytes of its request, and the kernel may keep 36 MiB of
    // replies in the buffers of two sockets.
    const MOST: usize = 256 << 20;
    let server = TestServer::lent_new(
        &bpfdb::Options::default(),
        Settings {
            output_limit: OutputLimits::of_normal(OutputLimit {
                hard: Size::mib(4),
                soft: Size(0),
                seconds: 0,
            }),
            ..Settings::default()
        },
    );
    let mut setup = server.client();
    setup.ask(&[b"set", b"big", &[b'b'; 20_000]]);
    for requests in [
        request(&[b"get", b"big"]).repeat(100),
        request(&[b"ping"]).repeat(1000),
        request(&[b"echo", &[b'e'; 300]]).repeat(100),
        request(&[b"set", b"big2", b"x", b"xx"]).repeat(100),
    ] {
        let mut client = server.client();
        let sent = flood(&mut client.stream, &requests, MOST, PATIENCE);
        assert!(sent < MOST, "the server took everything");
        assert_eq!(setup.say("ping"), "+PONG\r\n");
        drop(client);
    }
    assert_eq!(server.client().say("strlen big"), ":20000\r\n");
}

/// One that reads late gets everything, in order.
#[test]
fn a_client_that_reads_late() {
    let server = TestServer::shared();
    let mut client = server.client();
    let value = [b'l'; 10_000];
    client.ask(&[b"set", b"late", &value]);
    let mut bytes = Vec::new();
    for i in 0..300u32 {
        bytes.extend(request(&[b"get", b"late"]));
        bytes.extend(request(&[b"echo", i.to_string().as_bytes()]));
    }
    client.send(&bytes);
    std::thread::sleep(Duration::from_millis(300));
    for i in 0..300u32 {
        assert_eq!(
            client.reply().len(),
            value.len() + b"$10000\r\n\r\n".len(),
            "{i}"
        );
        let text = i.to_string();
        assert_eq!(
            client.reply(),
            format!("${}\r\n{text}\r\n", text.len()).as_bytes()
        );
    }
    assert_eq!(client.say("ping"), "+PONG\r\n");
}

/// This thread goes before all others of its processor, until it waits.
fn go_first() {
    // SAFETY: a parameter that the policy allows.
    let status = unsafe {
        let mut parameter: libc::sched_param = std::mem::zeroed();
        parameter.sched_priority = 1;
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter)
    };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
}

/// All of a long argument may come before the kernel's worker has the processor, and looks
/// at the first byte of it. What was short before it says nothing about it.
#[test]
fn a_long_argument_that_nobody_has_looked_at() {
    const LEN: usize = 150 << 20;
    let server = TestServer::start(&bpfdb::Options {
        memory_limit: 256 << 20,
        ..bpfdb::Options::default()
    });
    // Answered by the kernel, and by the daemon, which gives the connection back.
    for before in [&["ping"][..], &["lastsave", "set short 1"]] {
        let mut client = server.client();
        for command in before {
            client.say(command);
        }
        let long = request(&[b"set", b"long", &vec![b'l'; LEN]]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                go_first();
                client.send(&long);
            });
        });
        assert_eq!(client.reply(), b"+OK\r\n", "after {before:?}");
        assert_eq!(client.say("strlen long"), format!(":{LEN}\r\n"));
        assert_eq!(client.say("del long"), ":1\r\n");
    }
}

/// The server that is lent next is as it should be, whoever is left to this one.
#[test]
fn a_client_that_outlives_a_server_with_room_for_one_is_closed() {
    let server = TestServer::shared();
    let mut client = server.client();
    let one = "CONFIG SET maxclients 1";
    assert_eq!(client.say(one), "+OK\r\n");
    drop(server);
    assert!(client.is_closed());
    let server = TestServer::shared();
    let mut next = server.client();
    let limit = next.say("CONFIG GET maxclients");
    assert!(!limit.ends_with("$1\r\n1\r\n"), "{limit}");
}

/// With a password each connection is the daemon's from its beginning.
#[test]
fn those_that_were_not_accepted_keep_nothing_of_a_server_that_ends() {
    const WAITING: u64 = 20;
    cgroup::own();
    let engine = bpfdb::Engine::create(&bpfdb::Options::default()).expect("an engine");
    let mut options = Options::at(([127, 0, 0, 1], 0).into());
    options.settings.local_clients = cgroup::chosen();
    options.settings.require_pass = Secret("secret".into());
    // It listens, and does not run.
    let server = Server::start(&engine, &options).expect("a server");
    let sessions = || engine.stats().expect("figures").sessions;
    let before = sessions();
    let waiting: Vec<TcpStream> = (0..WAITING)
        .map(|_| TcpStream::connect(server.address()).expect("a connection"))
        .collect();
    wait_until("each has a session", || sessions() == before + WAITING);
    drop(server);
    assert_eq!(sessions(), 0);
    drop(waiting);
}

fn cgroups_of(process: u32) -> Vec<PathBuf> {
    let mount = bpfdb::mounts::cgroup2()
        .expect("a mount table")
        .expect("cgroup v2");
    let prefix = format!("bpfdb-{process}-");
    let mut found = Vec::new();
    let mut folders = vec![mount];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                found.push(entry.path());
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn nothing_is_left_behind() {
    // Its own: it is stopped.
    let server = TestServer::start(&bpfdb::Options::default());
    let (mut a, mut b) = (server.client(), server.client());
    a.say("BEGIN");
    a.say("SET x 1");
    b.say("SELECT 0");
    let engine = server.engine.clone();
    let address = server.address;
    server.stop();

    assert!(a.is_closed());
    assert!(b.is_closed());
    assert!(is_refused(address));
    let stats = engine.stats().expect("figures");
    assert_eq!((stats.transactions, stats.locks), (0, 0));
    assert_eq!(stats.sessions, 0);
    let mut session = engine.session().expect("a session");
    assert_eq!(session.get(b"x"), Ok(None));
}

#[test]
fn the_cgroup_goes_with_the_server() {
    let server = ServerProcess::start(16);
    let process = server.id();
    assert_eq!(server.client().say("PING"), "+PONG\r\n");
    assert_eq!(cgroups_of(process).len(), 1);
    drop(server);
    assert_eq!(cgroups_of(process), Vec::<PathBuf>::new());
}

const PINS: &str = "BPFDB_TEST_PINS";
const CLIENTS: &str = "BPFDB_TEST_CLIENTS";

/// Not a test: the process of a server, which `a_killed_server` kills.
#[test]
#[ignore = "run by the tests"]
fn server_process() {
    let Some(folder) = std::env::var_os(PINS) else {
        return;
    };
    let engine = bpfdb::Engine::open(folder.as_ref(), 0).expect("a pinned engine");
    let mut options = Options::at(([127, 0, 0, 1], 0).into());
    options.settings.local_clients = match std::env::var_os(CLIENTS) {
        Some(path) => LocalClients::In(path.into()),
        None => LocalClients::Off,
    };
    let server = Server::start(&engine, &options).expect("a server");
    println!("port {}", server.address().port());
    server.run().expect("killed, not stopped");
}

/// The kernel closes its sockets, and the sessions with them.
#[test]
fn a_killed_server() {
    kill_a_server(None);
}

/// Clients that are answered inside their own send() find it closed as well.
#[test]
fn a_killed_server_of_local_clients() {
    kill_a_server(Some(cgroup::own()));
}

fn kill_a_server(local_clients: Option<PathBuf>) {
    let engine = bpfdb::Engine::create(&bpfdb::Options::default()).expect("an engine");
    let folder = namespace::files().pins.join("engine");
    engine.pin(&folder).expect("pinned");
    // The server owns it: all other processes are attached.
    drop(engine);
    let engine = bpfdb::Engine::attach(&folder).expect("a pinned engine");
    let refused = Server::start(&engine, &Options::at(([127, 0, 0, 1], 0).into()))
        .err()
        .expect("it is another process's engine");
    assert_eq!(refused.to_string().lines().count(), 1);

    let mut command = Command::new(this_program());
    command
        .args([
            "--ignored",
            "--exact",
            "connections::server_process",
            "--nocapture",
        ])
        .env(PINS, &folder)
        .envs(local_clients.as_ref().map(|path| (CLIENTS, path)))
        .stdout(Stdio::piped());
    let mut process = dies_with_us(&mut command).spawn().expect("started");
    let output = BufReader::new(process.stdout.take().expect("piped"));
    let port: u16 = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.split("port ").nth(1)?.parse().ok())
        .expect("it listens");

    let mut clients: Vec<Client> = (0..20)
        .map(|_| Client::connect(([127, 0, 0, 1], port).into()))
        .collect();
    for (i, client) in clients.iter_mut().enumerate() {
        client.receive_until_known();
        assert_eq!(client.say("BEGIN"), "+OK\r\n");
        assert_eq!(client.say(&format!("SET killed{i} 1")), "+OK\r\n");
        if i % 2 == 0 {
            assert_eq!(client.say("SELECT 0"), "+OK\r\n");
        }
    }
    let stats = engine.stats().expect("figures");
    assert_eq!(stats.locks, 20);
    assert_eq!(
        stats.counters.redis().net.requests_local > 0,
        local_clients.is_some()
    );
    process.kill().expect("killed");
    process.wait().expect("gone");
    wait_until("every lock is gone", || {
        engine.stats().expect("figures").locks == 0
    });
    let mut session = engine.session().expect("a session");
    assert_eq!(session.get(b"killed0"), Ok(None));
    for client in &mut clients {
        assert!(client.is_closed());
        let _ = client.stream.write(&request(&[b"SET", b"killed0", b"2"]));
    }
    assert_eq!(session.get(b"killed0"), Ok(None));
}

/// Segments that TCP has sent again on this socket.
fn sent_again(client: &Client) -> u32 {
    // SAFETY: plain numbers, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: both pointers are to live values of these sizes.
    let result = unsafe {
        libc::getsockopt(
            client.stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    assert_eq!(result, 0, "TCP_INFO");
    info.tcpi_total_retrans
}

/// TCP may send bytes again together with new ones; with fast senders it does so on
/// loopback too. They must not be taken in twice.
#[test]
fn what_tcp_sends_again_arrives_once() {
    send_again(2, 50, 40);
}

#[test]
#[ignore = "long: make soak"]
fn soak_what_tcp_sends_again_arrives_once() {
    send_again(20, 300, 40);
}

/// So many clients send so many values of a megabyte, until enough segments were sent again.
fn send_again(clients: usize, values: usize, enough: u32) {
    let server = TestServer::shared();
    let value: Vec<u8> = (0..125_000)
        .flat_map(|i| format!("{i:07},").into_bytes())
        .collect();
    let set = request(&[b"set", b"sent again", &value]);
    let mut again = 0;
    for _ in 0..clients {
        let mut client = server.client();
        for _ in 0..values {
            client.send(&set);
            assert_eq!(show(&client.reply()), show(b"+OK\r\n"));
        }
        assert!(client.ask(&[b"get", b"sent again"]) == bulk(&value));
        again += sent_again(&client);
        if again >= enough {
            break;
        }
    }
    println!("{again} segments were sent again");
}
