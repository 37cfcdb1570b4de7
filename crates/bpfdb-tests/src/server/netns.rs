//! Network namespaces of threads. Nothing has to be removed: they go with the
//! thread, and devices go with them.

use std::sync::mpsc;
use std::thread;

use crate::namespace::{ip, network};

/// Runs `work` in a thread in a network namespace of its own.
pub fn isolated(work: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(|| {
        network();
        work();
    });
    thread.join().expect("no panic");
}

/// Runs `work` in a thread in another namespace, which a cable of two devices
/// connects with this thread's: 10.77.0.1 and fd77::1 here, .2 and ::2 there.
pub fn connected<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (there, name) = mpsc::channel();
    let (here, ready) = mpsc::channel();
    let thread = thread::spawn(move || {
        network();
        there.send(nix::unistd::gettid()).expect("the test waits");
        ready.recv().expect("the test goes on");
        address("there", 2);
        work()
    });
    let other = name.recv().expect("a namespace");
    ip(&format!(
        "link add here type veth peer name there netns {other}"
    ));
    address("here", 1);
    here.send(()).expect("it waits");
    thread.join().expect("no panic")
}

fn address(device: &str, number: u32) {
    ip(&format!("address add 10.77.0.{number}/24 dev {device}"));
    ip(&format!("address add fd77::{number}/64 dev {device} nodad"));
    ip(&format!("link set {device} up"));
}
