//! Scripts and functions that the kernel runs mean what Lua says, and what Redis answers.
//!
//! ```text
//! projects.rs   scripts of projects, as they are
//! same.rs       each of them beside Redis: replies, data, times
//! collections.rs commands on hashes, lists, sets and sorted sets
//! queues.rs     a queue of a procedure: each element once, and clients that wait
//! fixed.rs      programs that were thought of, and calls of all forms
//! replaced.rs   libraries that change under load
//! inside.rs     some of them called from inside a process, beside FCALL
//! daemon.rs     calls that the daemon has the kernel run, for clients that it keeps
//! evicted.rs    more scripts than there is room for in the kernel
//! given_up.rs   calls that the kernel gives up leave nothing
//! ```

use bpfdb_tests::server as common;

mod collections;
mod daemon;
mod evicted;
mod fixed;
mod given_up;
mod inside;
mod projects;
mod queues;
mod replaced;
mod same;

use bpfdb_tests::lent::Lent;
use common::lent::{self, Plain};
use common::procedures::{
    ask, back_to_kernel, daemon_calls, is, kernel_calls, load, parsed, shown,
};
use common::{Client, Reply, wait_until};

/// A server for this test alone: functions are those of all clients.
fn server() -> Lent<Plain> {
    lent::plain()
}

/// Does something again until the kernel has answered so many calls of it: a request that comes
/// before the daemon has given the connection back is the daemon's.
fn until_in_kernel(client: &mut Client, name: &str, calls: i64, mut work: impl FnMut(&mut Client)) {
    const TRIES: usize = 200;
    for _ in 0..TRIES {
        let before = kernel_calls(client, name);
        back_to_kernel(client);
        work(client);
        if kernel_calls(client, name) - before >= calls {
            return;
        }
    }
    panic!("{name}: {}", shown(client, name));
}

/// Calls of all that the kernel has answered.
fn all_kernel_calls(client: &mut Client) -> i64 {
    let all = ask(client, &["PROCEDURES"]);
    let calls = |one: &Reply| one.field("calls").and_then(Reply::number).unwrap_or(0);
    all.items.iter().map(calls).sum()
}
