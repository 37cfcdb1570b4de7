//! Pipelines that are written whole before anything of them is read: as Redis does, the server
//! takes the requests in and keeps the replies, within its limits.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::Path;

use bpfdb_server::settings::{
    ClientMemory, LocalClients, OutputLimit, OutputLimits, Settings, Size,
};
use bpfdb_tests::server::{Client, Lent, TestServer, bulk, cgroup, request, wait_until};

use crate::operation::number;

/// Bytes that no buffer of a socket holds.
const LONG: usize = 8 << 20;

/// A server with clients of all kinds: those that the kernel's worker answers, those that are
/// answered in their own send(), and those of the Unix-domain socket.
struct Ways {
    remote: Lent,
    local: Lent,
    folder: tempfile::TempDir,
}

impl Ways {
    fn with(settings: Settings) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let start = |local_clients, unix_socket| {
            TestServer::lent_new_as_told(
                &bpfdb::Options::default(),
                Settings {
                    bind: Ipv4Addr::LOCALHOST.into(),
                    local_clients,
                    unix_socket,
                    ..settings.clone()
                },
            )
        };
        Self {
            remote: start(LocalClients::Off, Some(folder.path().join("socket"))),
            local: start(LocalClients::In(cgroup::own()), None),
            folder,
        }
    }

    /// For each way its name, a client that goes it, and another one of the same server.
    fn clients(&self) -> [(&'static str, Client, Client); 3] {
        let socket: &Path = &self.folder.path().join("socket");
        [
            ("worker", self.remote.client(), self.remote.client()),
            ("send()", self.local.client(), self.local.client()),
            ("unix", Client::connect_unix(socket), self.remote.client()),
        ]
    }
}

/// Sends everything, then reads as many replies.
fn whole(way: &str, client: &mut Client, requests: &[Vec<u8>], reply: impl Fn(usize) -> Vec<u8>) {
    client.send(&requests.concat());
    for at in 0..requests.len() {
        assert!(client.reply() == reply(at), "{way}: reply {at}");
    }
}

#[test]
fn what_is_written_whole_is_answered() {
    let ways = Ways::with(Settings::default());
    for (way, mut client, mut other) in ways.clients() {
        let value = [b'v'; 250];
        let name = [b'k'; 80];
        let set = request(&[b"SET", &name, &value]);
        whole(way, &mut client, &vec![set; 40_000], |_| b"+OK\r\n".into());
        let get = request(&[b"GET", &name]);
        whole(way, &mut client, &vec![get; 40_000], |_| bulk(&value));

        let long = vec![b'l'; LONG];
        assert_eq!(other.ask(&[b"SET", b"long", &long]), b"+OK\r\n");
        let get = request(&[b"GET", b"long"]);
        let set = request(&[b"SET", b"other", &long]);
        let both = [get.clone(), set, get];
        whole(way, &mut client, &both, |at| match at {
            1 => b"+OK\r\n".into(),
            _ => bulk(&long),
        });

        let load = client.ask(&[b"SCRIPT", b"LOAD", b"return ARGV[1]"]);
        let sha = &load[5..load.len() - 2];
        let call = request(&[b"EVALSHA", sha, b"0", &value]);
        whole(way, &mut client, &vec![call; 15_000], |_| bulk(&value));
        // Afterwards it is a connection like any other.
        assert_eq!(client.say("GET none"), "$-1\r\n", "{way}");
    }
}

/// Sends without end and reads nothing, until the server ends it.
fn send_until_closed(way: &str, client: &mut Client, bytes: &[u8]) {
    for _ in 0..100_000 {
        match std::io::Write::write_all(&mut client.stream, bytes) {
            Ok(()) => {}
            Err(error) => {
                let closed = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
                assert!(closed.contains(&error.kind()), "{way}: {error}");
                return;
            }
        }
    }
    panic!("{way}: the server takes everything");
}

fn closes_beyond(settings: Settings, figure: &str) {
    let ways = Ways::with(settings);
    for (way, mut client, mut other) in ways.clients() {
        let echo = request(&[b"ECHO", &[b'e'; 2000]]).repeat(10);
        let before = number(&mut other, "stats", figure);
        send_until_closed(way, &mut client, &echo);
        wait_until("it is counted", || {
            number(&mut other, "stats", figure) == before + 1
        });
        assert_eq!(other.say("PING"), "+PONG\r\n");
    }
}

#[test]
fn beyond_the_limit_of_one_client() {
    let hard = OutputLimit {
        hard: Size::mib(4),
        soft: Size(0),
        seconds: 0,
    };
    let settings = Settings {
        output_limit: OutputLimits::of_normal(hard),
        ..Settings::default()
    };
    closes_beyond(settings, "client_output_buffer_limit_disconnections");
}

#[test]
fn beyond_the_limit_of_all_clients() {
    let settings = Settings {
        max_client_memory: ClientMemory::Bytes(Size::mib(4)),
        ..Settings::default()
    };
    closes_beyond(settings, "evicted_clients");
}
