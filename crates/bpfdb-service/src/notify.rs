//! Notifications to the service manager (`sd_notify`), if it started this process.
//!
//! ```text
//! start ──► EXTEND_TIMEOUT_USEC, STATUS (while recovery or loading makes progress) ──► READY ──► STOPPING
//! ```
//!
//! A message is a datagram of lines `NAME=value` to the socket that `NOTIFY_SOCKET` names: a path, or
//! a name of the abstract namespace behind `@`. Nothing depends on its arrival.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

const VARIABLE: &str = "NOTIFY_SOCKET";
/// The manager waits so much longer from then on. Several times the time between two messages.
const EXTENSION: Duration = Duration::from_secs(60);

/// Connections are accepted.
pub fn ready() {
    send("READY=1\nSTATUS=serving");
}

pub fn stopping() {
    send(&extended("STOPPING=1\nSTATUS=stopping"));
}

/// A start that takes long has come so far.
pub fn starting(status: &str) {
    send(&extended(&format!("STATUS={status}")));
}

fn extended(lines: &str) -> String {
    format!("{lines}\nEXTEND_TIMEOUT_USEC={}", EXTENSION.as_micros())
}

fn send(message: &str) {
    let Some(name) = env::var_os(VARIABLE).filter(|name| !name.is_empty()) else {
        return;
    };
    if let Err(error) = send_to(&name, message) {
        tracing::debug!(%error, ?name, "the manager of services was not notified");
    }
}

fn send_to(name: &OsStr, message: &str) -> io::Result<()> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read holds up nothing.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(message.as_bytes(), &address).map(drop)
}
