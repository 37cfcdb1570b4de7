//! CLIENT, and what is refused in words that clients know.

use crate::operation::{ask, info};
use bpfdb_tests::server::lent::plain;
use bpfdb_tests::server::{request, wait_until, words};

#[test]
fn clients_are_listed_and_killed() {
    let server = plain();
    let (mut a, mut b) = (server.client(), server.client());
    assert_eq!(b.say("CLIENT SETNAME bee"), "+OK\r\n");
    assert_eq!(b.say("CLIENT SETINFO LIB-NAME lib"), "+OK\r\n");
    assert_eq!(b.say("CLIENT SETINFO LIB-VER 1.2"), "+OK\r\n");
    assert!(
        b.say("CLIENT SETINFO LIB-X 1")
            .starts_with("-ERR Unrecognized option 'LIB-X'")
    );
    assert!(
        b.say("CLIENT SETINFO LIB-NAME a\nb")
            .starts_with("-ERR lib-name cannot contain")
    );
    let id = b.say("CLIENT ID").trim()[1..].to_owned();

    let list = ask(&mut a, "CLIENT LIST");
    assert_eq!(list.lines().count(), 2, "{list}");
    let line = list
        .lines()
        .find(|line| line.contains("name=bee"))
        .expect("listed");
    let peer = b.stream.local_addr().expect("an address").to_string();
    for part in [
        format!("id={id} "),
        format!("addr={peer} "),
        format!("laddr={} ", server.address),
        "lib-name=lib lib-ver=1.2".into(),
        "cmd=client|id ".into(),
        "resp=2 ".into(),
        "flags=N ".into(),
        "multi=-1 ".into(),
        "user=default ".into(),
    ] {
        assert!(line.contains(&part), "{part} in {line}");
    }
    assert_eq!(ask(&mut a, "CLIENT INFO").lines().count(), 1);
    let one = ask(&mut a, &format!("CLIENT LIST ID {id}"));
    assert!(one.starts_with(&format!("id={id} ")) && one.lines().count() == 1);
    assert_eq!(ask(&mut a, "CLIENT LIST TYPE pubsub"), "");
    assert_eq!(ask(&mut a, "CLIENT LIST TYPE normal").lines().count(), 2);
    assert_eq!(
        a.say("CLIENT LIST TYPE odd"),
        "-ERR Unknown client type 'odd'\r\n"
    );
    assert_eq!(a.say("CLIENT LIST ID x"), "-ERR Invalid client ID\r\n");

    // MULTI and RESP3 are seen.
    b.say("MULTI");
    b.say("GET a");
    assert!(ask(&mut a, "CLIENT LIST").contains("flags=x db=0 sub=0 psub=0 ssub=0 multi=1 "));
    b.say("DISCARD");

    assert_eq!(a.say("CLIENT KILL 1.2.3.4:5"), "-ERR No such client\r\n");
    assert_eq!(
        a.say("CLIENT KILL ID 0"),
        "-ERR client-id should be greater than 0\r\n"
    );
    assert_eq!(a.say("CLIENT KILL TYPE replica"), ":0\r\n");
    assert_eq!(a.say(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert!(b.is_closed());

    // The kernel has this one; it is closed too, and its transaction with it.
    let mut c = server.client();
    assert_eq!(c.say("BEGIN"), "+OK\r\n");
    assert_eq!(c.say("SET locked 1"), "+OK\r\n");
    let peer = c.stream.local_addr().expect("an address");
    // The kernel answers before the daemon has accepted the connection.
    wait_until("it is known", || {
        a.say(&format!("CLIENT KILL {peer}")) == "+OK\r\n"
    });
    assert!(c.is_closed());
    wait_until("the lock is gone", || a.say("SET locked 2") == "+OK\r\n");
    assert_eq!(a.say("CLIENT KILL SKIPME no"), ":1\r\n");
    assert!(a.is_closed());
}

/// What the kernel answers, user space does not see; CLIENT LIST looks it up.
#[test]
fn what_the_kernel_does_is_listed() {
    let server = plain();
    let (mut a, mut b) = (server.client(), server.client());
    a.say("PING");
    b.say("CLIENT SETNAME bee");
    let mut line = |wanted: &str| {
        let mut found = String::new();
        wait_until(wanted, || {
            let list = ask(&mut a, "CLIENT LIST");
            let of_bee = list.lines().find(|line| line.contains("name=bee"));
            found = of_bee.unwrap_or_default().to_owned();
            found.contains(wanted)
        });
        found
    };
    line("cmd=client|setname ");
    // User space keeps a connection after a command of its own, up to one of the kernel's.
    b.say("SET a 1 KEEPTTL KEEPTTL");
    b.say("GET a");
    line("cmd=get ");
    b.say("INCR a");
    let after = line("cmd=incr ");
    for part in [" idle=0 ", " qbuf=0 ", " obl=0 ", " omem=0 "] {
        assert!(after.contains(part), "{part} in {after}");
    }
    // Half a request is kept, by whomever.
    b.send(b"*2\r\n$3\r\nGET\r\n$1");
    let half = line(" qbuf=15 ");
    assert!(half.contains(" obl=0 "), "{half}");
    b.send(b"\r\na\r\n");
    assert_eq!(b.reply(), b"$1\r\n2\r\n");
    line("cmd=get ");
    // Somebody else has its place then: nothing is left of it.
    let peer = b.stream.local_addr().expect("an address");
    assert_eq!(a.say(&format!("CLIENT KILL {peer}")), "+OK\r\n");
    assert!(b.is_closed());
    let mut c = server.client();
    c.say("GET a");
    wait_until("it is known", || {
        ask(&mut a, "CLIENT LIST").contains("cmd=get ")
    });
}

#[test]
fn replies_can_be_turned_off() {
    let server = plain();
    let mut client = server.client();
    client.send(&request(&[b"client", b"reply", b"skip"]));
    client.send(&request(&[b"set", b"a", b"1"]));
    assert_eq!(client.say("GET a"), "$1\r\n1\r\n");
    // The second one is no reply that is skipped.
    for _ in 0..2 {
        client.send(&request(&[b"client", b"reply", b"skip"]));
    }
    client.send(&request(&[b"set", b"a", b"2"]));
    assert_eq!(client.say("GET a"), "$1\r\n2\r\n");
    client.send(&request(&[b"client", b"reply", b"skip"]));
    client.send(&request(&[b"reset"]));
    assert_eq!(client.say("GET a"), "$1\r\n2\r\n");
    client.send(&request(&[b"client", b"reply", b"skip"]));
    assert_eq!(client.say("CLIENT REPLY ON"), "+OK\r\n");
    client.send(&request(&[b"client", b"reply", b"off"]));
    for i in 0..50 {
        client.send(&request(&[b"set", b"a", format!("{i}").as_bytes()]));
        client.send(&request(&[b"nonsense"]));
    }
    client.send(&request(&[b"client", b"reply", b"on"]));
    assert_eq!(client.reply(), b"+OK\r\n");
    assert_eq!(client.say("GET a"), "$2\r\n49\r\n");
    assert!(
        client
            .say("CLIENT REPLY maybe")
            .starts_with("-ERR syntax error")
    );
}

/// Its request waits for us, and not for the client.
#[test]
fn who_waits_for_the_end_of_a_pause_is_not_idle() {
    let server = plain();
    let (mut a, mut b) = (server.client(), server.client());
    assert_eq!(a.say("CONFIG SET timeout 1"), "+OK\r\n");
    assert_eq!(a.say("CLIENT PAUSE 3500 WRITE"), "+OK\r\n");
    assert_eq!(b.say("SET b 1"), "+OK\r\n");
}

/// What a client has said of itself counts as memory that it takes.
#[test]
fn long_names_are_counted() {
    const LEN: usize = 3 << 20;
    let server = plain();
    let mut client = server.client();
    let name = vec![b'n'; LEN];
    assert_eq!(
        client.say("CONFIG SET slowlog-log-slower-than 0"),
        "+OK\r\n"
    );
    assert_eq!(client.ask(&[b"CLIENT", b"SETNAME", &name]), b"+OK\r\n");
    let list = ask(&mut client, "CLIENT LIST");
    let memory = list
        .split(' ')
        .find_map(|field| field.strip_prefix("tot-mem="));
    let memory: usize = memory.expect("told").parse().expect("a number");
    assert!(memory >= LEN, "{memory}");
    assert!(ask(&mut client, "SLOWLOG GET").len() < LEN / 10);
}

#[test]
fn only_so_many_commands_are_described_at_a_time() {
    let server = plain();
    let mut client = server.client();
    for what in ["DOCS", "INFO"] {
        let names = " set".repeat(2000);
        let told = client.say(&format!("COMMAND {what}{names}"));
        assert_eq!(told, "-ERR at most 1024 commands at a time\r\n");
    }
}

#[test]
fn what_is_refused_is_refused_in_the_words_that_clients_know() {
    let server = plain();
    let mut client = server.client();
    for (command, reply) in [
        ("CLIENT TRACKING off", "+OK\r\n"),
        ("CLIENT GETREDIR", ":-1\r\n"),
        ("CLIENT NO-EVICT on", "+OK\r\n"),
        ("CLIENT NO-TOUCH off", "+OK\r\n"),
        ("CLIENT NO-TOUCH maybe", "-ERR syntax error\r\n"),
        ("WAIT 1 0", ":0\r\n"),
        ("REPLICAOF NO ONE", "+OK\r\n"),
        ("ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"),
        ("SHUTDOWN ABORT", "-ERR No shutdown in progress.\r\n"),
        (
            "CLIENT MAINT_NOTIFICATIONS ON",
            "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.\r\n",
        ),
    ] {
        assert_eq!(client.say(command), reply, "{command}");
    }
    for command in ["CLIENT TRACKING on", "REPLICAOF a 1", "DEBUG SLEEP 1"] {
        assert!(client.say(command).starts_with("-ERR "), "{command}");
    }
    for command in [
        "CLIENT HELP",
        "CONFIG HELP",
        "SLOWLOG HELP",
        "LATENCY HELP",
        "MEMORY HELP",
    ] {
        let reply = client.say(command);
        assert!(reply.starts_with('*') && reply.contains("HELP"), "{reply}");
    }
    assert!(client.say("CLIENT TRACKINGINFO").contains("off"));
    assert!(client.say("TIME").starts_with("*2\r\n$10\r\n"));
    assert!(client.say("LASTSAVE").starts_with(':'));
}

/// What comes behind it is not executed.
#[test]
fn who_kills_itself_is_at_its_end() {
    let server = plain();
    let mut b = server.client();
    for old_form in [true, false] {
        let mut a = server.client();
        let id = a.say("CLIENT ID").trim()[1..].to_owned();
        let peer = a.stream.local_addr().expect("an address");
        let kill = if old_form {
            format!("CLIENT KILL {peer}")
        } else {
            format!("CLIENT KILL ID {id} SKIPME no")
        };
        let commands = [
            "SET before 1",
            &kill,
            "SET behind 1",
            "LASTSAVE",
            "SET behind 2",
        ];
        a.send(&commands.map(words).concat());
        let expected = if old_form {
            "+OK\r\n+OK\r\n"
        } else {
            "+OK\r\n:1\r\n"
        };
        assert_eq!(String::from_utf8_lossy(&a.until_closed()), expected);
        assert_eq!(b.say("MGET before behind"), "*2\r\n$1\r\n1\r\n$-1\r\n");
    }
}

/// A transaction of BEGIN is seen by the others, as one of MULTI is.
#[test]
fn transactions_are_listed() {
    let server = plain();
    let (mut a, mut b) = (server.client(), server.client());
    const OPEN: &str = "flags=x db=0 sub=0 psub=0 ssub=0 multi=-1 ";
    for begin in ["BEGIN", "BEGIN READ ONLY"] {
        assert_eq!(b.say(begin), "+OK\r\n");
        assert!(ask(&mut a, "CLIENT LIST").contains(OPEN), "{begin}");
        assert!(ask(&mut b, "CLIENT INFO").contains(OPEN), "{begin}");
        assert_eq!(b.say("COMMIT"), "+OK\r\n");
        assert!(!ask(&mut a, "CLIENT LIST").contains("flags=x"), "{begin}");
    }
}

/// As in Redis: what says that it does not write is not held back; what says nothing is.
#[test]
fn scripts_during_a_pause_of_writes() {
    let server = plain();
    let mut client = server.client();
    let reads = &b"#!lua flags=no-writes\nreturn 7"[..];
    let library = &b"#!lua name=l\nredis.register_function{function_name='reads', \
        callback=function() return 7 end, flags={'no-writes'}}\n\
        redis.register_function('says_nothing', function() return 7 end)"[..];
    let loaded = client.ask(&[b"SCRIPT", b"LOAD", reads]);
    let sha = loaded[5..45].to_vec();
    let loaded = client.ask(&[b"SCRIPT", b"LOAD", b"return 7"]);
    let sha_of_nothing = loaded[5..45].to_vec();
    assert_eq!(client.ask(&[b"FUNCTION", b"LOAD", library]), b"$1\r\nl\r\n");
    assert_eq!(client.say("CLIENT PAUSE 600000 WRITE"), "+OK\r\n");
    for free in [
        [&b"EVAL"[..], reads, b"0"],
        [b"EVALSHA", &sha, b"0"],
        [b"FCALL", b"reads", b"0"],
    ] {
        assert_eq!(client.ask(&free), b":7\r\n");
    }
    let mut held = Vec::new();
    for words in [
        [&b"EVAL"[..], b"return 7", b"0"],
        [b"EVALSHA", &sha_of_nothing, b"0"],
        [b"FCALL", b"says_nothing", b"0"],
    ] {
        let mut other = server.client();
        other.send(&request(&words));
        held.push(other);
        let blocked = format!("blocked_clients:{}\r\n", held.len());
        wait_until("it waits", || {
            ask(&mut client, "INFO clients").contains(&blocked)
        });
    }
    assert_eq!(client.say("CLIENT UNPAUSE"), "+OK\r\n");
    for other in &mut held {
        assert_eq!(other.reply(), b":7\r\n");
    }
}

/// One reply is skipped, the next one after EXEC's, as in Redis.
#[test]
fn client_reply_in_a_block() {
    let server = plain();
    for (mode, told) in [
        ("SKIP", "$1\r\nb\r\n+OK\r\n$1\r\nc\r\n"),
        ("OFF", "+OK\r\n$1\r\nc\r\n"),
        ("ON", "$1\r\na\r\n$1\r\nb\r\n+OK\r\n$1\r\nc\r\n"),
    ] {
        let mut client = server.client();
        let reply = format!("CLIENT REPLY {mode}");
        let all = [
            "MULTI",
            &reply,
            "PING",
            "EXEC",
            "ECHO a",
            "ECHO b",
            "CLIENT REPLY ON",
            "ECHO c",
        ];
        client.send(&all.map(words).concat());
        client
            .stream
            .shutdown(std::net::Shutdown::Write)
            .expect("half closed");
        let got = String::from_utf8(client.until_closed()).expect("text");
        let block = "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+PONG\r\n";
        assert_eq!(got, format!("{block}{told}"), "{mode}");
    }
}

/// A client that is gone before it is accepted is none too many.
#[test]
fn connections_reset_before_they_are_accepted() {
    let server = plain();
    let mut client = server.client();
    let before = info(&mut client, "stats", "rejected_connections");
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    for _ in 0..500 {
        let stream = std::net::TcpStream::connect(server.address).expect("a connection");
        // SAFETY: a value of the option's type, as long as given.
        let set = unsafe {
            libc::setsockopt(
                std::os::fd::AsRawFd::as_raw_fd(&stream),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                (&raw const linger).cast(),
                size_of_val(&linger) as libc::socklen_t,
            )
        };
        assert_eq!(set, 0);
    }
    wait_until("all are gone", || {
        info(&mut client, "clients", "connected_clients") == "1"
    });
    assert_eq!(info(&mut client, "stats", "rejected_connections"), before);
}

/// The memory may have become short since a command was queued.
#[test]
fn exec_is_refused_when_memory_is_short() {
    let server = plain();
    let (mut client, mut other) = (server.client(), server.client());
    let limit = other.say("CONFIG GET maxmemory");
    let limit = limit.lines().last().expect("a value").to_owned();
    for (command, refused) in [("SET a 1", true), ("GET a", false)] {
        client.say("MULTI");
        assert_eq!(client.say(command), "+QUEUED\r\n");
        assert_eq!(other.say("CONFIG SET maxmemory 1"), "+OK\r\n");
        let told = client.say("EXEC");
        assert_eq!(
            other.say(&format!("CONFIG SET maxmemory {limit}")),
            "+OK\r\n"
        );
        let text = "-EXECABORT Transaction discarded because of: OOM command not allowed \
                    when used memory > 'maxmemory'.\r\n";
        assert_eq!(told == text, refused, "{command}: {told}");
    }
    assert_eq!(client.say("GET a"), "$-1\r\n");
}
