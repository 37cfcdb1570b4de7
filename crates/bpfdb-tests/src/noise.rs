//! Interrupts of programs: traffic, whose softirqs run on whatever processor
//! they meet, in the middle of whatever runs there.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Datagrams over the loopback device, until stopped. They carry no
/// operators: they shift the moments at which timers and threads get a turn.
pub fn datagrams(stop: &AtomicBool) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bind a socket");
    let to = socket.local_addr().expect("the socket's address");
    socket
        .set_read_timeout(Some(Duration::from_millis(10)))
        .expect("set a time limit");
    let mut buffer = [0; 64];
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..16 {
            let _ = socket.send_to(&buffer, to);
        }
        for _ in 0..16 {
            if socket.recv(&mut buffer).is_err() {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}
