//! The process is told once of what arrives: it has to find all that is there.

use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{MsgFlags, send};

use crate::postgres;
use crate::proxy::{TestProxy, Way};
use crate::wire::{Wire, kinds, query};

/// The process receives 64 KiB at once.
const MANY: usize = 400 << 10;

#[test]
fn more_than_is_received_at_once_is_served() {
    for way in [Way::Slow, Way::Plain] {
        let proxy = TestProxy::start(way, 1);
        let mut wire = proxy.client();
        let long = format!("select '{}'", "x".repeat(MANY));
        let replies = wire.query(&long);
        assert_eq!(kinds(&replies), "TDCZ", "{way:?}");
        assert_eq!(replies[1].1.len(), MANY + 6, "{way:?}");
        // Many requests, and nothing behind them.
        let one = query("select 1");
        let count = (150 << 10) / one.len();
        let mut sender = wire.socket.try_clone().expect("a copy");
        let all = one.repeat(count);
        let sends = thread::spawn(move || std::io::Write::write_all(&mut sender, &all));
        for _ in 0..count {
            assert_eq!(kinds(&wire.until(b'Z')), "TDCZ", "{way:?}");
        }
        sends.join().expect("a thread").expect("sent");
    }
}

/// Its last bytes and the end of its connection arrive as one.
#[test]
fn an_end_behind_the_last_bytes_is_seen() {
    const NAME: &str = "ends_at_once";
    for way in [Way::Slow, Way::Plain] {
        let proxy = TestProxy::start(way, 1);
        let mut wire = Wire::connect(proxy.port, postgres::USER, &[("application_name", NAME)]);
        wire.query("begin");
        let bytes = query("select txid_current()");
        let more = MsgFlags::from_bits_retain(libc::MSG_MORE);
        let sent = send(wire.socket.as_raw_fd(), &bytes, more).expect("it is taken");
        assert_eq!(sent, bytes.len());
        wire.socket.shutdown(Shutdown::Write).expect("it ends");
        // The only server is there for others, without the transaction.
        let begun = Instant::now();
        let is_left =
            format!("select count(*) from pg_stat_activity where application_name = '{NAME}'");
        while postgres::shared().direct(&is_left) != "0" {
            assert!(begun.elapsed() < Duration::from_secs(10), "{way:?}");
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(proxy.client().value("select 1"), "1", "{way:?}");
    }
}
