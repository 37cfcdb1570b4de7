//! Functions live as long as the data does.

use bpfdb::{Engine, FUNCTIONS_KEY, Options};
use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_server::settings::{AppendFsync, Settings};

use super::common::{Client, TestServer, cgroup};
use super::{alone, ask, load};

fn sync() -> Settings {
    Settings {
        append_fsync: AppendFsync::Always,
        ..Settings::default()
    }
}

/// The engine stays, without a log; the daemon is another one.
#[test]
fn they_outlive_the_daemon() {
    let server = TestServer::start(&Options::default());
    let mut client = server.client();
    load(&mut client, "lib", "return redis.call('incr', 'n')");
    assert_eq!(client.say("fcall lib 0"), ":1\r\n");
    let server = server.start_next(Settings::default());
    let mut client = server.client();
    assert!(
        client
            .say("function stats")
            .contains("libraries_count\r\n:1")
    );
    assert_eq!(client.say("fcall lib 0"), ":2\r\n");
}

/// Each may have as much memory as when it was loaded.
#[test]
fn large_libraries_outlive_the_daemon() {
    const LARGE: usize = 6;
    let server = TestServer::start(&Options::default());
    let mut client = server.client();
    for number in 0..LARGE {
        // 16 MiB: all together are more than a state has room for.
        let text = format!(
            "#!lua name=large{number}
             local text = ('{number}'):rep(16777216)
             redis.register_function('f{number}', function() return #text end)"
        );
        let reply = ask(&mut client, &["FUNCTION", "LOAD", &text]);
        assert!(reply.starts_with('$'), "{reply}");
    }
    let server = server.start_next(Settings::default());
    let mut client = server.client();
    for number in 0..LARGE {
        assert_eq!(client.say(&format!("fcall f{number} 0")), ":16777216\r\n");
    }
}

/// Whoever looks through all of them has not much to do.
#[test]
fn there_are_only_so_many() {
    let server = alone();
    let mut client = server.client();
    let refused = "-ERR there may be 1024 libraries, with 4096 functions in all\r\n";
    let texts: Vec<String> = (0..1025)
        .map(|number| super::library(&format!("f{number}"), "return 1"))
        .collect();
    let dump = |texts: &[String]| {
        let texts = texts.iter().map(String::as_bytes);
        bpfdb_copies::rdb::functions::encode(texts)
    };
    let mut restore =
        |texts: &[String]| client.ask(&[b"FUNCTION", b"RESTORE", &dump(texts), b"FLUSH"]);
    assert_eq!(restore(&texts), refused.as_bytes());
    assert_eq!(restore(&texts[..1024]), b"+OK\r\n");
    assert_eq!(
        ask(&mut client, &["FUNCTION", "LOAD", &texts[1024]]),
        refused
    );
    assert_eq!(client.say("fcall f1023 0"), ":1\r\n");
    assert_eq!(client.say("function flush"), "+OK\r\n");
    // A text may run for half a second: that is not much on a slow machine.
    for number in 0..21 {
        let many = format!(
            "#!lua name=many{number}
             for i = 1, 200 do redis.register_function('f{number}_' .. i, function() return i end) end"
        );
        let reply = ask(&mut client, &["FUNCTION", "LOAD", &many]);
        let fits = (number + 1) * 200 <= 4096;
        let name = format!("many{number}");
        let name = format!("${}\r\n{name}\r\n", name.len());
        assert_eq!(reply, if fits { name.as_str() } else { refused });
        let found = client.say(&format!("fcall f{number}_200 0"));
        let expected = if fits {
            ":200\r\n"
        } else {
            "-ERR Function not found\r\n"
        };
        assert_eq!(found, expected);
    }
}

/// The reply of FUNCTION LOAD has waited: what the disk has after a crash has the library.
#[test]
fn they_are_recovered_from_the_log() {
    let disk = SimulatedDisk::new(7);
    let server = TestServer::start_logged(&disk, sync());
    let mut client = server.client();
    load(&mut client, "gone", "return 0");
    load(&mut client, "lib", "return redis.call('incr', 'n')");
    assert_eq!(client.say("function delete gone"), "+OK\r\n");
    assert_eq!(client.say("fcall lib 0"), ":1\r\n");
    // As after a loss of power: what was not synchronised is not there.
    let crashed = disk.lose_power();
    drop(client);
    server.stop();
    let server = TestServer::start_logged(&crashed, sync());
    let mut client = server.client();
    assert_eq!(client.say("fcall lib 0"), ":2\r\n");
    assert_eq!(client.say("fcall gone 0"), "-ERR Function not found\r\n");
}

/// Another process writes the key, as `bpfdb restore` does: the daemon is not notified.
#[test]
fn what_others_write_counts() {
    let server = alone();
    let mut client = server.client();
    load(&mut client, "one", "return 1");
    let dump = |client: &mut Client| super::bulk(&client.ask(&[b"FUNCTION", b"DUMP"]));
    let with_one = dump(&mut client);
    load(&mut client, "two", "return 2");
    assert_eq!(client.say("fcall two 0"), ":2\r\n");
    let mut session = server.engine.session().expect("a session");
    session.set(FUNCTIONS_KEY, &with_one).expect("written");
    assert_eq!(client.say("fcall two 0"), "-ERR Function not found\r\n");
    assert_eq!(client.say("fcall one 0"), ":1\r\n");
    // Texts that this daemon has never seen.
    let text = super::library("three", "return 3");
    let payload = bpfdb_copies::rdb::functions::encode([text.as_bytes()]);
    session.set(FUNCTIONS_KEY, &payload).expect("written");
    assert_eq!(client.say("fcall three 0"), ":3\r\n");
    assert_eq!(client.say("fcall one 0"), "-ERR Function not found\r\n");
    // None of ours: functions are refused, until they are deleted.
    session.set(FUNCTIONS_KEY, b"nonsense").expect("written");
    for request in [
        "fcall three 0",
        "function list",
        "function dump",
        "function delete three",
    ] {
        assert!(client.say(request).contains("is damaged"), "{request}");
    }
    assert_eq!(client.say("function flush"), "+OK\r\n");
    assert_eq!(ask(&mut client, &["FUNCTION", "LIST"]), "*0\r\n");
    load(&mut client, "one", "return 1");
    assert_eq!(client.say("fcall one 0"), ":1\r\n");
}

/// A copy has them; one in Redis's form as Redis writes them.
#[test]
fn copies_have_them() {
    let server = alone();
    let mut client = server.client();
    load(&mut client, "lib", "return redis.call('incr', 'n')");
    client.say("set n 5");
    let directory = tempfile::tempdir().expect("a directory");
    for form in ["rdb", "jsonl", "bpfdb"] {
        let path = directory.path().join(form);
        let format = match form {
            "rdb" => bpfdb_copies::Format::Rdb,
            "jsonl" => bpfdb_copies::Format::Jsonl,
            _ => bpfdb_copies::Format::Binary,
        };
        let snapshot = bpfdb_copies::Snapshot::take(&server.engine).expect("a snapshot");
        bpfdb_copies::dump_file(snapshot, format, &path, &mut |_| Ok(())).expect("written");
        cgroup::own();
        let engine = Engine::create(&Options::default()).expect("an engine");
        let options = bpfdb_copies::Options::default();
        let mut copy = bpfdb_copies::VerifiedCopy::open(&path, options).expect("right");
        copy.load(&engine, &mut |_| Ok(())).expect("loaded");
        let restored = TestServer::start_again(engine);
        let mut client = restored.client();
        assert_eq!(client.say("fcall lib 0"), ":6\r\n", "{form}");
        assert_eq!(client.say("dbsize"), ":1\r\n", "{form}");
    }
    let bytes = std::fs::read(directory.path().join("rdb")).expect("a file");
    assert!(
        !bytes
            .windows(FUNCTIONS_KEY.len())
            .any(|part| part == FUNCTIONS_KEY)
    );
}
