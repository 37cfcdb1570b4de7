//! Clients that read by splice(): they see the replies of TCP only.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::ptr;

use crate::local::{local, local_client, server};
use bpfdb_tests::server::{bulk, request, wait_until};

/// What one splice() into a pipe moves, up to a page.
fn splice(stream: &TcpStream, flags: u32) -> io::Result<Vec<u8>> {
    let (mut reader, writer) = io::pipe()?;
    // SAFETY: no offsets are given.
    let got = unsafe {
        libc::splice(
            stream.as_raw_fd(),
            ptr::null_mut(),
            writer.as_raw_fd(),
            ptr::null_mut(),
            4096,
            flags,
        )
    };
    let len = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    let mut bytes = vec![0; len];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn spliced(stream: &TcpStream, len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        match splice(stream, 0) {
            Ok(some) if some.is_empty() => panic!("closed"),
            Ok(some) => all.extend(some),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{error} after {} bytes", all.len()),
        }
    }
    all
}

#[test]
fn from_the_beginning() {
    let server = server();
    let mut client = server.client();
    let before = local(&server);
    for i in 0..100 {
        let text = i.to_string();
        let expected = bulk(text.as_bytes());
        client.send(&request(&[b"ECHO", text.as_bytes()]));
        assert_eq!(spliced(&client.stream, expected.len()), expected);
    }
    assert_eq!(local(&server), before);
}

/// As clients that wait for an event first.
#[test]
fn later_with_nothing_unread() {
    let server = server();
    let mut client = local_client(&server);
    // The flag of splice() is for the pipe alone.
    client.stream.set_nonblocking(true).expect("a mode");
    let nothing = splice(&client.stream, libc::SPLICE_F_NONBLOCK);
    client.stream.set_nonblocking(false).expect("a mode");
    assert_eq!(nothing.expect_err("no reply").kind(), ErrorKind::WouldBlock);
    let before = local(&server);
    for _ in 0..100 {
        client.send(&request(&[b"PING"]));
        assert_eq!(spliced(&client.stream, 7), b"+PONG\r\n");
    }
    assert_eq!(local(&server), before);
}

/// What waits in its own queue it would never see: it gets the end of the connection.
#[test]
fn later_with_a_reply_unread() {
    let server = server();
    let mut client = local_client(&server);
    let before = local(&server);
    client.send(&request(&[b"PING"]));
    assert_eq!(local(&server), before + 1);
    let end = splice(&client.stream, 0);
    assert!(
        end.as_ref().is_ok_and(Vec::is_empty)
            || end
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::ConnectionReset),
        "{end:?}"
    );
    wait_until("others are served", || {
        server.client().say("PING") == "+PONG\r\n"
    });
}
