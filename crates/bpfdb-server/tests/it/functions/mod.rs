//! FUNCTION and FCALL: the same replies as Redis 7.0, libraries that are data of the engine, and
//! the key that they are in.

use bpfdb_tests::server as common;

mod calls;
mod kept;
mod redis;
mod reserved;

use bpfdb_tests::lent::Lent;
use common::Client;
use common::lent::{self, Plain};

/// For tests that change the functions: they are those of all clients.
fn alone() -> Lent<Plain> {
    lent::plain()
}

fn ask(client: &mut Client, words: &[&str]) -> String {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    text(&client.ask(&words))
}

fn text(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).into_owned()
}

/// A library with one function of the same name, which returns what `body` does.
fn library(name: &str, body: &str) -> String {
    format!("#!lua name={name}\nredis.register_function('{name}', function(keys, args) {body} end)")
}

fn load(client: &mut Client, name: &str, body: &str) {
    let reply = ask(
        client,
        &["FUNCTION", "LOAD", "REPLACE", &library(name, body)],
    );
    assert!(reply.contains(name) && !reply.starts_with('-'), "{reply}");
}

/// Without its frame.
fn bulk(reply: &[u8]) -> Vec<u8> {
    let end = reply
        .iter()
        .position(|&byte| byte == b'\n')
        .expect("a line");
    reply[end + 1..reply.len() - 2].to_vec()
}
