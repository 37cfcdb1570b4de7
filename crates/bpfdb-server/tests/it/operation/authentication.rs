//! AUTH and requirepass.

use bpfdb_server::settings::{Secret, Settings};

use crate::operation::server;
use bpfdb_tests::server::{request, wait_until};

#[test]
fn a_stranger_can_only_say_who_it_is() {
    let server = server(Settings {
        require_pass: Secret("secret".into()),
        ..Settings::default()
    });
    let mut client = server.client();
    for command in [
        "GET a",
        "SET a 1",
        "PING",
        "ECHO x",
        "MULTI",
        "BEGIN",
        "CONFIG GET *",
        "CLIENT LIST",
        "INFO",
        "SHUTDOWN",
        "COMMAND",
    ] {
        assert_eq!(
            client.say(command),
            "-NOAUTH Authentication required.\r\n",
            "{command}"
        );
    }
    assert!(client.say("HELLO").starts_with("-NOAUTH HELLO must be"));
    assert!(
        client
            .say("HELLO 3 AUTH default x")
            .starts_with("-WRONGPASS")
    );
    for wrong in ["AUTH x", "AUTH default x", "AUTH other secret"] {
        assert!(client.say(wrong).starts_with("-WRONGPASS"), "{wrong}");
    }
    assert!(client.say("AUTH a b c").starts_with("-ERR syntax error"));
    assert_eq!(client.say("RESET"), "+RESET\r\n");
    assert!(client.say("GET a").starts_with("-NOAUTH"));
    assert_eq!(client.say("AUTH secret"), "+OK\r\n");
    assert_eq!(client.say("SET a 1"), "+OK\r\n");
    assert_eq!(client.say("RESET"), "+RESET\r\n");
    assert!(client.say("GET a").starts_with("-NOAUTH"));
    assert_eq!(client.say("AUTH default secret"), "+OK\r\n");
    assert_eq!(client.say("GET a"), "$1\r\n1\r\n");

    // In one message with what follows: the kernel must not answer before.
    let mut pipelined = server.client();
    pipelined.send(&[request(&[b"get", b"a"]), request(&[b"auth", b"secret"])].concat());
    pipelined.send(&request(&[b"get", b"a"]));
    assert!(pipelined.reply().starts_with(b"-NOAUTH"));
    assert_eq!(pipelined.reply(), b"+OK\r\n");
    assert_eq!(pipelined.reply(), b"$1\r\n1\r\n");

    // Let in, it is answered in the kernel.
    let fast = || {
        server
            .engine
            .counters()
            .expect("figures")
            .redis()
            .requests_by_kernel()
    };
    wait_until("the kernel answers", || {
        let before = fast();
        assert_eq!(pipelined.say("GET a"), "$1\r\n1\r\n");
        fast() > before
    });
}

#[test]
fn a_stranger_may_say_little() {
    let server = server(Settings {
        require_pass: Secret("secret".into()),
        ..Settings::default()
    });
    for (bytes, error) in [
        (
            "*11\r\n",
            "-ERR Protocol error: unauthenticated multibulk length\r\n",
        ),
        (
            "*2\r\n$4\r\nAUTH\r\n$16385\r\n",
            "-ERR Protocol error: unauthenticated bulk length\r\n",
        ),
    ] {
        let mut client = server.client();
        client.send(bytes.as_bytes());
        assert_eq!(client.reply(), error.as_bytes());
        assert!(client.is_closed());
    }
    let mut client = server.client();
    assert!(
        client
            .ask(&[b"auth", &[b'x'; 16384]])
            .starts_with(b"-WRONGPASS")
    );
}

#[test]
fn the_password_can_change_at_run_time() {
    let server = server(Settings::default());
    let mut admin = server.client();
    assert!(
        admin
            .say("AUTH x")
            .starts_with("-ERR AUTH <password> called without any")
    );
    assert_eq!(admin.say("SET a 1"), "+OK\r\n");
    for round in 0..20 {
        assert_eq!(admin.say("CONFIG SET requirepass new"), "+OK\r\n");
        // Whoever connects from now on is asked.
        let mut stranger = server.client();
        assert!(stranger.say("GET a").starts_with("-NOAUTH"), "{round}");
        assert_eq!(stranger.say("AUTH new"), "+OK\r\n");
        // Who was in stays in.
        assert_eq!(admin.say("GET a"), "$1\r\n1\r\n");
        let mut left_out = server.client();
        assert!(left_out.say("GET a").starts_with("-NOAUTH"), "{round}");
        assert_eq!(
            admin.ask(&[b"config", b"set", b"requirepass", b""]),
            b"+OK\r\n"
        );
        assert_eq!(left_out.say("GET a"), "$1\r\n1\r\n");
        assert_eq!(server.client().say("GET a"), "$1\r\n1\r\n");
    }
}
