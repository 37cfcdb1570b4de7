//! CONFIG.

use bpfdb_server::settings::Settings;

use crate::start;

#[test]
fn settings_are_read_and_changed_all_or_nothing() {
    let server = start(Settings::default());
    let mut client = server.client();
    assert_eq!(
        client.say("CONFIG GET TIMEOUT save"),
        "*4\r\n$7\r\ntimeout\r\n$1\r\n0\r\n$4\r\nsave\r\n$0\r\n\r\n"
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
