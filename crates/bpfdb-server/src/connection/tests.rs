//! Which side has a connection, by what the kernel's map says.

use std::fs::File;
use std::mem::offset_of;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use bpfdb::abi;

use super::info::{Address, ConnectionInfo};
use super::{Connection, State};
use crate::kernel::connections::KernelConnections;

const COOKIE: u64 = 7;

/// What the programs write, in a file instead of their map.
struct Programs {
    map: File,
    connections: KernelConnections,
}

impl Programs {
    fn new() -> Self {
        let map = tempfile::tempfile().expect("a file");
        map.set_len(4096).expect("a page");
        let connections = KernelConnections::map(map.as_fd(), 1).expect("a mapping");
        let programs = Self { map, connections };
        programs.write(offset_of!(abi::bpfdb_connection, cookie), COOKIE);
        programs
    }

    fn write(&self, at: usize, word: u64) {
        let written = self.map.write_all_at(&word.to_ne_bytes(), at as u64);
        written.expect("a word of the connection");
    }

    fn arrived(&self, word: u64) {
        self.write(offset_of!(abi::bpfdb_connection, arrived), word);
    }
}

fn connection() -> Connection {
    let socket = OwnedFd::from(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket"));
    let address = Address::Inet((Ipv4Addr::LOCALHOST, 1).into());
    let info = ConnectionInfo::new(COOKIE, socket.as_raw_fd(), address.clone(), address);
    Connection::new(socket, 0, info)
}

#[test]
fn a_connection_that_the_kernel_leaves_to_the_daemon_is_taken_over() {
    let (programs, mut connection) = (Programs::new(), connection());
    programs.arrived(abi::BPFDB_CONNECTION_DAEMON | 30);
    connection.take_over(&programs.connections);
    assert_eq!(connection.state, State::Daemon);
}

/// The kernel answers it: a daemon that took it for its own could not give it back.
#[test]
fn a_stale_record_takes_nothing_over() {
    let (programs, mut connection) = (Programs::new(), connection());
    programs.arrived(30);
    connection.take_over(&programs.connections);
    assert_eq!(connection.state, State::Kernel);
}

#[test]
fn a_record_of_another_connection_takes_nothing_over() {
    let (programs, mut connection) = (Programs::new(), connection());
    programs.arrived(abi::BPFDB_CONNECTION_DAEMON | 30);
    programs.write(offset_of!(abi::bpfdb_connection, cookie), COOKIE + 1);
    connection.take_over(&programs.connections);
    assert_eq!(connection.state, State::Kernel);
}
