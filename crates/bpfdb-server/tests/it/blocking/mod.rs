//! Commands that wait for keys: which client is served when, by writes on every path, and what else ends the
//! waiting. What is replied without waiting is in `tests/replies/blocking.txt`.
#![allow(unreachable_pub, reason = "the modules of one test")]

mod ends;
mod order;
mod transactions;
mod writers;

use std::time::Duration;

use bpfdb_tests::server::{Client, TestServer, request, wait_until};

/// What would have come by then.
const MOMENT: Duration = Duration::from_millis(100);

/// What a client is sent, as text.
fn next(client: &mut Client) -> String {
    String::from_utf8(client.reply()).expect("text")
}

/// Words as an array of bulk strings.
fn array(words: &[&str]) -> String {
    let items = words
        .iter()
        .map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let items: String = items.collect();
    format!("*{}\r\n{items}", words.len())
}

/// Without a look at the reply.
fn send(client: &mut Client, command: &str) {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    client.send(&request(&words));
}

/// So many clients wait.
fn wait_for_blocked(server: &TestServer, clients: usize) {
    let mut asking = server.client();
    let blocked = format!("blocked_clients:{clients}\r\n");
    wait_until("they wait", || {
        let info = asking.ask(&[b"INFO", b"clients"]);
        String::from_utf8_lossy(&info).contains(&blocked)
    });
}

/// Has a client wait for keys, behind those that wait already.
fn block(server: &TestServer, client: &mut Client, command: &str, already: usize) {
    send(client, command);
    wait_for_blocked(server, already + 1);
}
