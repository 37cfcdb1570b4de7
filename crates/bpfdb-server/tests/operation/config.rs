//! CONFIG.

use bpfdb_server::settings::Settings;

use crate::common::TestServer;
use crate::start;

#[test]
fn the_memory_limit_is_changed_at_run_time() {
    const MIB: u64 = 1 << 20;
    let server = TestServer::start(&bpfdb::Options {
        memory_limit: 64 * MIB,
        memory_limit_max: 256 * MIB,
        ..bpfdb::Options::default()
    });
    let mut client = server.client();
    let now = |client: &mut crate::common::Client| {
        let said = client.say("CONFIG GET maxmemory");
        let mib = (said.split("\r\n").nth(4)).and_then(|bytes| bytes.parse::<u64>().ok());
        mib.expect("a number") / MIB
    };
    assert_eq!(now(&mut client), 64);
    assert_eq!(client.say("CONFIG SET maxmemory 100mb"), "+OK\r\n");
    assert_eq!(now(&mut client), 112);
    assert!(
        client
            .say("INFO memory")
            .contains("maxmemory:117440512\r\n")
    );
    let start = "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - ";
    for (wanted, why) in [
        ("1g", "there is room for 256.0 MiB; more needs a restart"),
        (
            "1mb",
            "maxmemory is 1.0 MiB, must be at least 32.0 MiB, or 0 for half of the machine's",
        ),
        ("lots", "argument must be a memory value, as 512M or 4G"),
    ] {
        let said = client.say(&format!("CONFIG SET timeout 5 maxmemory {wanted}"));
        assert_eq!(said, format!("{start}{why}\r\n"));
    }
    assert_eq!(now(&mut client), 112);
    assert_eq!(
        client.say("CONFIG GET timeout"),
        "*2\r\n$7\r\ntimeout\r\n$1\r\n0\r\n"
    );
    assert_eq!(client.say("CONFIG SET maxmemory 32mb"), "+OK\r\n");
    assert_eq!(now(&mut client), 32);
}

#[test]
fn settings_are_read_and_changed_all_or_nothing() {
    let server = start(Settings::default());
    let mut client = server.client();
    assert_eq!(
        client.say("CONFIG GET TIMEOUT save"),
        "*4\r\n$7\r\nTIMEOUT\r\n$1\r\n0\r\n$4\r\nsave\r\n$0\r\n\r\n"
    );
    assert!(client.say("CONFIG GET slowlog-*").starts_with("*4\r\n"));
    let port = server.address.port();
    assert!(client.say("CONFIG GET port").contains(&port.to_string()));
    assert!(client.say("CONFIG GET maxmemory").contains("1073741824"));
    assert_eq!(client.say("CONFIG GET nothing"), "*0\r\n");

    assert_eq!(
        client.say("CONFIG SET timeout 7 slowlog-max-len 3"),
        "+OK\r\n"
    );
    for (command, error) in [
        (
            "CONFIG SET timeout 9 nonsense 1",
            "-ERR Unknown option or number of arguments for CONFIG SET - 'nonsense'\r\n",
        ),
        (
            "CONFIG SET timeout 9 port 1",
            "-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config\r\n",
        ),
        (
            "CONFIG SET timeout 9 timeout 10",
            "-ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter\r\n",
        ),
        (
            "CONFIG SET timeout 9 slowlog-max-len x",
            "-ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - argument couldn't be parsed into an integer\r\n",
        ),
        (
            "CONFIG SET timeout -1",
            "-ERR CONFIG SET failed (possibly related to argument 'timeout') - argument must be between 0 and 2147483647 inclusive\r\n",
        ),
        (
            "CONFIG SET timeout",
            "-ERR wrong number of arguments for 'config|set' command\r\n",
        ),
        (
            "CONFIG REWRITE",
            "-ERR The server is running without a config file\r\n",
        ),
    ] {
        assert_eq!(client.say(command), error, "{command}");
    }
    assert_eq!(
        client.say("CONFIG GET timeout"),
        "*2\r\n$7\r\ntimeout\r\n$1\r\n7\r\n"
    );
    // What is always so may be set to that.
    assert_eq!(client.say("CONFIG SET appendonly no"), "+OK\r\n");
    assert!(
        client
            .say("CONFIG SET appendonly yes")
            .starts_with("-ERR CONFIG SET failed")
    );
    assert!(
        client
            .say("CONFIG SET maxclients 60000")
            .starts_with("-ERR CONFIG SET failed")
    );
    assert_eq!(client.say("CONFIG RESETSTAT"), "+OK\r\n");
}
