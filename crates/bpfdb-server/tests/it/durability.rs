//! What replies expose while the disk is slow, full, or fails: the modes of durability.

use bpfdb_tests::process::alone_in_a_process;
use bpfdb_tests::server as common;

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

use bpfdb_log::simulation::{Fault, Operation, SimulatedDisk};
use bpfdb_server::Server;
use bpfdb_server::settings::Settings;
use common::lent::logged;
use common::procedures::{ask, back_to_kernel, load};
use common::{Client, TestServer, kernel_calls, show, wait_until};

/// Longer than a flush and the thread's interval between two of them.
const WHILE: Duration = Duration::from_millis(200);

fn start(disk: &SimulatedDisk) -> TestServer {
    TestServer::start_logged(disk, Settings::default())
}

/// What the servers of this process have logged, of warnings and errors: a test that looks at it is
/// alone in its process.
static LOGGED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Logged;

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOGGED.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Before a server starts whose log the test wants to read.
fn keep_what_is_logged() {
    static KEPT: Once = Once::new();
    KEPT.call_once(|| {
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::WARN)
            .with_ansi(false)
            .with_writer(|| Logged)
            .init();
    });
}

/// Is there a line with all of these?
#[track_caller]
fn has_logged(parts: &[&str]) {
    let logged = LOGGED.lock().expect("no panic").clone();
    let logged = String::from_utf8_lossy(&logged);
    let is_it = |line: &str| parts.iter().all(|part| line.contains(part));
    assert!(logged.lines().any(is_it), "{parts:?}: {logged}");
}

/// A synchronous client.
fn sync(server: &TestServer) -> Client {
    let mut client = server.client();
    assert_eq!(client.say("CLIENT DURABILITY SYNC"), "+OK\r\n");
    client
}

fn send(client: &mut Client, command: &str) {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    client.send(&common::request(&words));
}

/// Has a reply come in the meantime?
fn has_reply(client: &mut Client) -> bool {
    thread::sleep(WHILE);
    !client.replies_at_hand().is_empty()
}

#[test]
fn a_synchronous_client_is_told_when_its_write_is_durable() {
    let (disk, server) = logged();
    let (mut own, mut other) = (sync(&server), server.client());
    disk.hold(true);
    send(&mut own, "SET a 1");
    assert!(!has_reply(&mut own), "before the flush");
    assert_eq!(other.say("GET a"), "$1\r\n1\r\n", "others need not wait");
    disk.hold(false);
    assert_eq!(own.reply(), b"+OK\r\n");
}

/// What a call writes is one record of the log, or nothing: also what the kernel begins with.
#[test]
fn a_script_that_writes_too_much_for_the_log_leaves_nothing() {
    const BODY: &str = "for i = 1, 900 do redis.call('SET', KEYS[1] .. i, ARGV[1]) end return 1";
    let (_disk, server) = logged();
    let mut client = server.client();
    let function = format!("redis.register_function('many', function(KEYS, ARGV) {BODY} end)");
    load(&mut client, &format!("#!lua name=lib\n{function}"));
    let value = "v".repeat(32 << 10);
    for call in [["EVAL", BODY], ["FCALL", "many"]] {
        back_to_kernel(&mut client);
        let reply = ask(&mut client, &[call[0], call[1], "1", "k", &value]);
        let told = reply.to_string();
        assert!(
            reply.is_error() && told.contains("more than its part of the log"),
            "{told}"
        );
        assert_eq!(client.say("DBSIZE"), ":0\r\n", "{call:?}");
        let reply = ask(&mut client, &[call[0], call[1], "1", "k", "short"]);
        assert_eq!(reply.number(), Some(1), "{call:?}: {reply}");
        assert_eq!(client.say("DBSIZE"), ":900\r\n", "{call:?}");
        client.say("FLUSHALL");
    }
}

/// Not one for each: all that wait are notified together.
#[test]
fn many_synchronous_clients_share_a_flush() {
    const CLIENTS: usize = 30;
    let (disk, server) = logged();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| sync(&server)).collect();
    let mut other = server.client();
    let mut flushes = || -> u64 {
        let page = other.say("INFO persistence");
        let mut lines = page.lines();
        let count = lines.find_map(|line| line.strip_prefix("log_flushes:"));
        count.expect("the field").parse().expect("a number")
    };
    for round in 0..3 {
        let before = flushes();
        disk.hold(true);
        for (number, client) in clients.iter_mut().enumerate() {
            send(client, &format!("SET {number} {round}"));
        }
        thread::sleep(WHILE);
        disk.hold(false);
        for client in &mut clients {
            assert_eq!(show(&client.reply()), show(b"+OK\r\n"));
        }
        // One for those that came first, and one for all others, which waited for it.
        let needed = flushes() - before;
        assert!((1..=4).contains(&needed), "{needed} flushes for {CLIENTS}");
    }
}

#[test]
fn a_synchronous_client_sees_nothing_that_is_not_durable() {
    let (disk, server) = logged();
    let mut writer = server.client();
    for command in ["SET old 1", "SET gone 1", "SET expired 1", "SET counter 1"] {
        assert_eq!(writer.say(command), "+OK\r\n");
    }
    let reads = [
        ("GET new", "$1\r\n1\r\n"),
        ("EXISTS gone", ":0\r\n"),
        ("GET gone", "$-1\r\n"),
        ("SET new 2 NX", "$-1\r\n"),
        ("PTTL expired", ":-2\r\n"),
        ("DBSIZE", ":3\r\n"),
        ("MGET old new", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n"),
        ("STRLEN new", ":1\r\n"),
        ("DEL gone", ":0\r\n"),
        ("GETRANGE counter 0 -1", "$1\r\n2\r\n"),
    ];
    let mut readers: Vec<Client> = reads.iter().map(|_| sync(&server)).collect();
    let mut settled = sync(&server);
    // All of before is on the disk: a group that is held half-way would leave the log no room.
    assert_eq!(settled.say("SET old 1"), "+OK\r\n");
    disk.hold(true);
    for (command, reply) in [
        ("SET new 1", "+OK\r\n"),
        ("DEL gone", ":1\r\n"),
        ("PEXPIRE expired 0", ":1\r\n"),
        ("INCR counter", ":2\r\n"),
    ] {
        assert_eq!(writer.say(command), reply);
    }
    for (reader, (command, _)) in readers.iter_mut().zip(reads) {
        send(reader, command);
    }
    // What has been durable for long is replied at once, and that there is nothing.
    assert_eq!(settled.say("GET old"), "$1\r\n1\r\n");
    assert_eq!(settled.say("GET never"), "$-1\r\n");
    thread::sleep(WHILE);
    for (reader, (command, _)) in readers.iter_mut().zip(reads) {
        assert!(reader.replies_at_hand().is_empty(), "{command}");
    }
    disk.hold(false);
    for (reader, (command, reply)) in readers.iter_mut().zip(reads) {
        assert_eq!(show(&reader.reply()), show(reply.as_bytes()), "{command}");
    }
}

#[test]
fn transactions_wait_for_what_they_have_seen() {
    let (disk, server) = logged();
    let (mut writer, mut reader, mut watcher) = (server.client(), sync(&server), sync(&server));
    assert_eq!(watcher.say("WATCH a"), "+OK\r\n");
    disk.hold(true);
    assert_eq!(writer.say("SET a 1"), "+OK\r\n");
    for command in ["BEGIN", "GET a", "COMMIT"] {
        send(&mut reader, command);
    }
    for command in ["MULTI", "GET b", "EXEC"] {
        send(&mut watcher, command);
    }
    thread::sleep(WHILE);
    let told = reader.replies_at_hand();
    assert!(!told.contains(&b"$1\r\n1\r\n".to_vec()), "{told:?}");
    let told = watcher.replies_at_hand();
    assert!(!told.contains(&b"*-1\r\n".to_vec()), "{told:?}");
    disk.hold(false);
    wait_until("all is told", || watcher.reply() == b"*-1\r\n");
    wait_until("all is told", || reader.reply() == b"$1\r\n1\r\n");
}

#[test]
fn one_commit_waits_in_an_asynchronous_connection() {
    let (disk, server) = logged();
    let mut client = server.client();
    disk.hold(true);
    for command in ["BEGIN", "SET a 1"] {
        assert_eq!(client.say(command), "+OK\r\n");
    }
    send(&mut client, "COMMIT SYNC");
    assert!(!has_reply(&mut client));
    disk.hold(false);
    assert_eq!(client.reply(), b"+OK\r\n");
    disk.hold(true);
    assert_eq!(client.say("SET a 2"), "+OK\r\n", "the next one does not");
    disk.hold(false);
}

#[test]
fn waitaof_tells_the_truth() {
    let (disk, server) = logged();
    let mut client = server.client();
    disk.hold(true);
    assert_eq!(client.say("SET a 1"), "+OK\r\n");
    assert_eq!(client.say("WAITAOF 1 0 50"), "*2\r\n:0\r\n:0\r\n");
    assert_eq!(client.say("WAITAOF 0 0 0"), "*2\r\n:0\r\n:0\r\n");
    // Nor does a client wait with locks.
    assert_eq!(client.say("MULTI"), "+OK\r\n");
    for queued in ["SET locked 1", "WAITAOF 1 0 0"] {
        assert_eq!(client.say(queued), "+QUEUED\r\n");
    }
    assert_eq!(client.say("EXEC"), "*2\r\n+OK\r\n*2\r\n:0\r\n:0\r\n");
    send(&mut client, "WAITAOF 1 0 0");
    assert!(!has_reply(&mut client));
    disk.hold(false);
    assert_eq!(client.reply(), b"*2\r\n:1\r\n:0\r\n");
    assert!(client.say("WAITAOF 2 0 0").starts_with("-ERR"));
    assert!(client.say("WAITAOF 1 0 -1").starts_with("-ERR"));
}

#[test]
fn the_setting_holds_for_all_who_have_not_chosen() {
    let (disk, server) = logged();
    let (mut old, mut chooser, mut fast) = (server.client(), server.client(), server.client());
    assert_eq!(old.say("SET a 1"), "+OK\r\n");
    // The kernel has this connection, and keeps it.
    let before = kernel_calls(&mut chooser, "set");
    assert_eq!(fast.say("SET c 1"), "+OK\r\n");
    assert_eq!(fast.say("SET c 2"), "+OK\r\n");
    assert!(kernel_calls(&mut chooser, "set") > before);
    assert_eq!(chooser.say("CLIENT DURABILITY ASYNC"), "+OK\r\n");
    assert_eq!(chooser.say("CLIENT DURABILITY"), "$5\r\nasync\r\n");
    assert_eq!(old.say("CONFIG SET appendfsync always"), "+OK\r\n");
    assert_eq!(old.say("CLIENT DURABILITY"), "$4\r\nsync\r\n");
    disk.hold(true);
    send(&mut fast, "SET c 3");
    send(&mut old, "SET a 2");
    assert_eq!(chooser.say("SET b 2"), "+OK\r\n");
    assert!(!has_reply(&mut old));
    assert!(!has_reply(&mut fast));
    disk.hold(false);
    assert_eq!(old.reply(), b"+OK\r\n");
    assert_eq!(fast.reply(), b"+OK\r\n");
    // And back: then the kernel answers again.
    assert_eq!(old.say("CONFIG SET appendfsync everysec"), "+OK\r\n");
    wait_until("the kernel answers", || {
        let before = kernel_calls(&mut chooser, "set");
        old.say("SET a 3");
        old.say("SET a 3");
        kernel_calls(&mut chooser, "set") > before
    });
}

/// They are plain TCP: no program has their socket, so none could answer them later.
#[test]
fn connections_that_were_made_while_all_were_synchronous_stay_with_the_daemon() {
    let (disk, server) = logged();
    let mut admin = server.client();
    assert_eq!(admin.say("CONFIG SET appendfsync always"), "+OK\r\n");
    let (mut silent, mut busy) = (server.client(), server.client());
    disk.hold(true);
    send(&mut busy, "SET a 1");
    assert!(!has_reply(&mut busy));
    disk.hold(false);
    assert_eq!(busy.reply(), b"+OK\r\n");
    assert_eq!(admin.say("CONFIG SET appendfsync everysec"), "+OK\r\n");

    let before = kernel_calls(&mut admin, "set");
    assert_eq!(silent.say("GET a"), "$1\r\n1\r\n");
    let large = "x".repeat(300_000);
    for client in [&mut silent, &mut busy] {
        for command in ["BEGIN", "SET b 1", "COMMIT", "SET a 2", "SET a 3"] {
            assert_eq!(client.say(command), "+OK\r\n", "{command}");
        }
        assert_eq!(client.say(&format!("SET large {large}")), "+OK\r\n");
        assert_eq!(client.say("STRLEN large"), ":300000\r\n");
    }
    assert_eq!(kernel_calls(&mut admin, "set"), before);

    drop((silent, busy));
    wait_until("their sessions are free", || {
        admin
            .say("INFO clients")
            .contains("connected_clients:1\r\n")
    });
    let mut new = server.client();
    wait_until("the kernel answers who comes now", || {
        new.say("SET a 4");
        kernel_calls(&mut admin, "set") > before
    });
}

#[test]
fn what_follows_the_choice_in_a_pipeline_waits_already() {
    for choice in ["CLIENT DURABILITY SYNC", "CONFIG SET appendfsync always"] {
        let (disk, server) = logged();
        let (mut writer, mut own) = (server.client(), server.client());
        assert_eq!(writer.say("CLIENT DURABILITY ASYNC"), "+OK\r\n");
        disk.hold(true);
        assert_eq!(writer.say("SET a 1"), "+OK\r\n");
        let mut requests = Vec::new();
        for command in [choice, "GET a"] {
            let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            requests.extend(common::request(&words));
        }
        own.send(&requests);
        thread::sleep(WHILE);
        let told = own.replies_at_hand();
        assert!(
            !told.contains(&b"$1\r\n1\r\n".to_vec()),
            "{choice}: {told:?}"
        );
        disk.hold(false);
        wait_until("all is told", || own.reply() == b"$1\r\n1\r\n");
    }
}

#[test]
fn a_pipeline_is_told_in_order_and_whole() {
    let (_disk, server) = logged();
    let mut client = sync(&server);
    const COUNT: usize = 20_000;
    let mut requests = Vec::new();
    for n in 0..COUNT {
        requests.extend(common::request(&[b"SET", n.to_string().as_bytes(), b"v"]));
        requests.extend(common::request(&[b"GET", n.to_string().as_bytes()]));
    }
    let mut writer = client.stream.try_clone().expect("a second handle");
    let sender = thread::spawn(move || std::io::Write::write_all(&mut writer, &requests));
    for n in 0..COUNT {
        assert_eq!(client.reply(), b"+OK\r\n", "{n}");
        assert_eq!(client.reply(), b"$1\r\nv\r\n", "{n}");
    }
    sender.join().expect("no panic").expect("sent");
}

#[test]
fn after_a_failed_flush_nothing_is_written_and_everybody_is_told_why() {
    alone_in_a_process(
        "durability::after_a_failed_flush_nothing_is_written_and_everybody_is_told_why",
        fail_a_flush,
    );
}

fn fail_a_flush() {
    keep_what_is_logged();
    let disk = SimulatedDisk::new(8);
    let server = start(&disk);
    let (mut own, mut local) = (sync(&server), server.client());
    assert_eq!(local.say("SET a 1"), "+OK\r\n");
    disk.hold(true);
    send(&mut own, "SET a 2");
    thread::sleep(WHILE);
    for operation in [Operation::Write, Operation::Flush] {
        for nth in 0..4 {
            disk.fail(operation, nth, Fault::Error);
        }
    }
    disk.hold(false);
    let told = String::from_utf8(own.reply()).expect("text");
    assert!(told.starts_with("-MISCONF "), "{told}");
    assert!(own.is_closed());
    let writes = [
        "SET a 3",
        "DEL a",
        "INCR n",
        "INCRBYFLOAT n 1",
        "APPEND a 1",
        "SETRANGE a 3 x",
        "MSET a 1 b 2",
        "EXPIRE a 100",
        "RENAME a b",
        "COPY a b",
        "GETDEL a",
        "SET a 4 GET",
        "SETNX n 1",
    ];
    for command in writes {
        let told = local.say(command);
        assert!(told.starts_with("-MISCONF "), "{command}: {told}");
        assert_eq!(local.say("GET b"), "$-1\r\n", "{command}");
    }
    assert_eq!(local.say("BEGIN"), "+OK\r\n");
    assert_eq!(local.say("SET a 3"), "+OK\r\n");
    let refused = local.say("COMMIT");
    assert!(refused.starts_with("-MISCONF "), "{refused}");
    assert!(refused.contains("rolled back"), "{refused}");
    assert_ne!(local.say("GET a"), "$1\r\n3\r\n", "it was rolled back");
    assert!(local.say("ROLLBACK").starts_with('-'), "none is open");
    for command in ["MULTI", "SET a 3", "INCR n"] {
        local.say(command);
    }
    let begun = Instant::now();
    assert!(local.say("EXEC").starts_with("-MISCONF the log has failed"));
    let script = "EVAL return{redis.call('SET',KEYS[1],1)} 1 a";
    assert!(local.say(script).starts_with("-MISCONF the log has failed"));
    // Nobody waits for what does not pass.
    assert!(begun.elapsed() < Duration::from_millis(300) || bpfdb_tests::settings::is_emulated());
    assert_eq!(local.say("GET a"), "$1\r\n2\r\n", "reads go on");
    assert!(
        local
            .say("INFO persistence")
            .contains("aof_last_write_status:err")
    );
    has_logged(&["ERROR", "the log has failed", "read-only", "log/"]);
}

#[test]
fn a_full_disk_heals() {
    alone_in_a_process("durability::a_full_disk_heals", fill_and_empty_a_disk);
}

fn fill_and_empty_a_disk() {
    keep_what_is_logged();
    let disk = SimulatedDisk::new(9);
    let server = start(&disk);
    let mut client = server.client();
    let value = "v".repeat(10_000);
    disk.set_capacity(0);
    let mut refused = String::new();
    for n in 0..100_000 {
        refused = client.say(&format!("SET k{n} {value}"));
        if refused != "+OK\r\n" {
            break;
        }
    }
    assert!(refused.starts_with("-MISCONF no space"), "{refused}");
    has_logged(&["WARN", "the log has to wait", "space"]);
    assert_eq!(client.say("GET k0").len(), 10_000 + 10);
    disk.set_capacity(usize::MAX);
    wait_until("there is space", || client.say("SET a 1") == "+OK\r\n");
    assert_eq!(client.say("WAITAOF 1 0 0"), "*2\r\n:1\r\n:0\r\n");
}

#[test]
fn a_disk_that_does_not_answer_stops_writers_and_no_reader() {
    let disk = SimulatedDisk::new(10);
    let settings = Settings {
        local_clients: common::cgroup::chosen(),
        ..Settings::default()
    };
    let server = TestServer::start_logged_as_told(&disk, settings, Duration::from_secs(1));
    let mut client = server.client();
    assert_eq!(client.say("SET a 1"), "+OK\r\n");
    disk.hold(true);
    wait_until("the engine is read-only", || {
        client
            .say("SET a 2")
            .starts_with("-ERR the log has no room")
    });
    assert_eq!(client.say("GET a"), "$1\r\n2\r\n");
    disk.hold(false);
    wait_until("the disk is back", || client.say("SET a 3") == "+OK\r\n");
}

#[test]
fn without_a_log_nobody_is_promised_anything() {
    let server = TestServer::shared();
    let mut client = server.client();
    for command in ["CLIENT DURABILITY SYNC", "WAITAOF 1 0 0"] {
        let told = client.say(command);
        assert!(told.starts_with("-ERR nothing is durable here"), "{told}");
    }
    assert_eq!(client.say("BEGIN"), "+OK\r\n");
    assert!(client.say("COMMIT SYNC").starts_with("-ERR nothing"));
    assert_eq!(client.say("COMMIT"), "+OK\r\n");
    assert_eq!(
        client.say("CONFIG GET appendonly"),
        "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"
    );
}

/// What a client is replied must outlive the server from the first reply on, and the kernel replies as
/// soon as there is a connection: so the data is pinned before that.
#[test]
fn nobody_connects_before_the_data_is_pinned() {
    common::cgroup::own();
    let engine = bpfdb::Engine::create(&bpfdb::Options::default()).expect("an engine");
    let options = common::at_any_port(Settings {
        local_clients: common::cgroup::chosen(),
        ..Settings::default()
    });
    let mut early = None;
    let server = Server::start_after(&engine, &options, |address| {
        early = Some(TcpStream::connect(address).is_ok());
        Ok::<_, bpfdb_server::Error>(())
    });
    let server = server.expect("a server");
    assert_eq!(early, Some(false));
    TcpStream::connect(server.address()).expect("now it listens");
}

/// COPY, RENAME and EXPIRE share a large value: in one transaction, several writes name it.
#[test]
fn a_large_value_under_several_names_comes_back() {
    let disk = SimulatedDisk::new(13);
    let large = vec![b'x'; 100_000];
    {
        let server = start(&disk);
        let mut client = server.client();
        client.send(&common::request(&[b"SET", b"big", &large]));
        assert_eq!(client.reply(), b"+OK\r\n");
        for block in [
            &["COPY big a", "COPY big b"][..],
            &["EXPIRE big 1000", "COPY big c"],
            &["COPY a moved", "RENAME moved d", "COPY d e"],
        ] {
            assert_eq!(client.say("MULTI"), "+OK\r\n");
            for command in block {
                assert_eq!(client.say(command), "+QUEUED\r\n");
            }
            let reply = client.say("EXEC");
            assert!(!reply.contains('-') && !reply.contains(":0"), "{reply}");
        }
        // In one message: perhaps in one transaction.
        let commands = ["COPY big f", "COPY big g", "COPY big h"];
        let bytes: Vec<u8> = commands.into_iter().flat_map(common::words).collect();
        client.send(&bytes);
        for _ in commands {
            assert_eq!(client.reply(), b":1\r\n");
        }
    }
    let server = start(&disk);
    let mut client = server.client();
    for key in ["big", "a", "b", "c", "d", "e", "f", "g", "h"] {
        send(&mut client, &format!("GET {key}"));
        let reply = client.reply();
        assert!(
            reply.len() > large.len() && reply[9..].starts_with(&large),
            "{key}: {}",
            show(&reply[..20.min(reply.len())])
        );
    }
}

/// What its last write had is given back once: else the next two writers got the same place.
#[test]
fn a_transaction_that_is_too_large_for_the_log_harms_nobody() {
    const LEN: usize = 29_000;
    let (_disk, server) = logged();
    let mut client = server.client();
    let long = vec![b'v'; LEN];
    for how in ["MULTI", "BEGIN", "EVAL"] {
        let told = match how {
            "EVAL" => {
                let script = "for n = 1, 20 do redis.call('SET', n, ARGV[1]) end";
                client.ask(&[b"EVAL", script.as_bytes(), b"0", &long])
            }
            _ => {
                assert_eq!(client.say(how), "+OK\r\n");
                for number in 0..20_u32 {
                    client.ask(&[b"SET", number.to_string().as_bytes(), &long]);
                }
                let end = if how == "BEGIN" { "COMMIT" } else { "EXEC" };
                client.say(end).into_bytes()
            }
        };
        assert!(told.starts_with(b"-"), "{how}: {}", show(&told));
        if how == "BEGIN" {
            client.say("ROLLBACK");
        }
        assert_eq!(client.say("DBSIZE"), ":0\r\n", "{how}");
        let value = |number: u32| [number.to_string().as_bytes(), &long].concat();
        for number in 0..100 {
            let key = format!("{how}{number}");
            let set = client.ask(&[b"SET", key.as_bytes(), &value(number)]);
            assert_eq!(set, b"+OK\r\n", "{how}");
        }
        for number in 0..100 {
            let found = client.ask(&[b"GET", format!("{how}{number}").as_bytes()]);
            let expected = common::bulk(&value(number));
            assert!(
                found == expected,
                "{how}: {number} has the value of another"
            );
        }
        assert_eq!(client.say("FLUSHALL"), "+OK\r\n");
    }
}
