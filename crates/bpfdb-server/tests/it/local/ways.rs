//! What the metric `connections_by_way` says of clients of each kind.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bpfdb_server::settings::Settings;
use bpfdb_tests::process::dies_with_us;
use nix::sys::socket::{SockaddrIn, connect};

use super::common::{Client, TestServer, bulk, cgroup, request, wait_until};
use super::splice::spliced;
use super::{local_client, settings};
use crate::operation::metrics::{http, metrics_address};

/// Connections by how they are served.
fn ways(metrics: SocketAddr) -> BTreeMap<String, u64> {
    let page = http(metrics, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let lines = page.lines();
    let lines = lines.filter_map(|line| line.strip_prefix("bpfdb_connections_by_way{way=\""));
    lines
        .map(|line| {
            let (way, count) = line.split_once("\"} ").expect("a metric");
            (way.to_owned(), count.parse().expect("a number"))
        })
        .collect()
}

/// A client that splices its replies.
fn splicing(server: &TestServer) -> Client {
    let mut client = server.client();
    for i in 0..10 {
        let text = i.to_string();
        let expected = bulk(text.as_bytes());
        client.send(&request(&[b"ECHO", text.as_bytes()]));
        assert_eq!(spliced(&client.stream, expected.len()), expected);
    }
    client
}

/// A client whose socket is in use in a way that a map of sockets cannot be: its TCP is a part of
/// multipath TCP.
fn multipath(address: SocketAddr) -> Client {
    // SAFETY: a system call without pointers.
    let socket = unsafe {
        libc::socket(
            libc::AF_INET,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
            libc::IPPROTO_MPTCP,
        )
    };
    let error = io::Error::last_os_error();
    assert!(
        socket >= 0,
        "multipath TCP, which Debian's kernels have: {error}"
    );
    // SAFETY: it is new, and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let SocketAddr::V4(address) = address else {
        panic!("{address}");
    };
    connect(socket.as_raw_fd(), &SockaddrIn::from(address)).expect("a connection");
    let mut client = Client::from_stream(TcpStream::from(socket));
    client.receive_until_known();
    client
}

/// A client in another control group than the one whose clients are served in their `send()`. Ends with the test.
struct Outside(Child);

impl Outside {
    fn connect(address: SocketAddr, group: &Path) -> Self {
        let script = "echo 0 >\"$0/cgroup.procs\" && exec 3<>\"/dev/tcp/127.0.0.1/$1\" && \
                      for i in 1 2 3 4 5 6 7 8 9; do echo PING >&3 && read -r line <&3 || exit; done && \
                      echo \"$line\" && exec sleep 600";
        let mut command = Command::new("bash");
        command.args(["-c", script]).arg(group);
        command
            .arg(address.port().to_string())
            .stdout(Stdio::piped());
        let mut child = dies_with_us(&mut command).spawn().expect("bash starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        let outside = Self(child);
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line.trim_end(), "+PONG");
        outside
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn connections_are_counted_by_how_they_are_served() {
    let settings = Settings {
        metrics_address: Some(([127, 0, 0, 1], 0).into()),
        ..settings([127, 0, 0, 1].into())
    };
    let server = TestServer::lent_new_as_told(&bpfdb::Options::default(), settings);
    let mut local = local_client(&server);
    let metrics = metrics_address(&mut local);
    let expect = |wanted: [u64; 5]| {
        let names = ["local", "undecided", "spliced", "foreign", "remote"];
        let mut all = BTreeMap::from([("left".to_owned(), 0)]);
        all.extend(names.map(String::from).into_iter().zip(wanted));
        wait_until(&format!("the metric says {all:?}"), || ways(metrics) == all);
    };
    expect([1, 0, 0, 0, 0]);
    let spliced = splicing(&server);
    let foreign = multipath(server.address);
    let group = cgroup::own();
    let outside = Outside::connect(server.address, group.parent().expect("a parent"));
    let mut new = server.client();
    assert_eq!(new.say("PING"), "+PONG\r\n");
    expect([1, 1, 1, 1, 1]);
    assert!(
        local
            .say("INFO clients")
            .contains("\r\nlocal_clients:1\r\n")
    );
    drop((spliced, foreign, outside, new));
    expect([1, 0, 0, 0, 0]);
}
