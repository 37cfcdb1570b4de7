//! Libraries of functions, and which side has run them.

use super::{Client, Reply, wait_until};

pub fn ask(client: &mut Client, words: &[&str]) -> Reply {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    parsed(&client.ask(&words))
}

pub fn parsed(bytes: &[u8]) -> Reply {
    Reply::parse(bytes).expect("a whole reply").0
}

/// Loads a library and waits until its functions run where they will.
pub fn load(client: &mut Client, text: &str) {
    let reply = ask(client, &["FUNCTION", "LOAD", "REPLACE", text]);
    assert!(!reply.is_error(), "{reply} for {text}");
    settle(client);
}

/// Waits until what can be is published, and what was replaced is forgotten.
pub fn settle(client: &mut Client) {
    let libraries = ask(client, &["FUNCTION", "LIST"]);
    let registered: usize = libraries
        .items
        .iter()
        .map(|library| library.field("functions").map_or(0, |all| all.items.len()))
        .sum();
    wait_until("functions are compiled", || {
        let shown = ask(client, &["PROCEDURES"]);
        let functions = shown.items.iter().filter(|one| is(one, "kind", "function"));
        let all: Vec<_> = functions.collect();
        all.len() == registered && all.into_iter().all(is_settled)
    });
}

/// In the kernel, or it never will be. That is because of what it does: the verifier takes what the
/// compiler makes.
fn is_settled(one: &Reply) -> bool {
    let reasons = one.field("reasons").map_or(0, |all| all.items.len());
    assert!(!one.to_string().contains("the kernel refused"), "{one}");
    is(one, "path", "kernel") || reasons > 0
}

pub fn is(one: &Reply, field: &str, value: &str) -> bool {
    one.field(field)
        .is_some_and(|found| found.text == value.as_bytes())
}

/// As a rule: the daemon gives a connection back after its reply, when it has a processor.
pub fn back_to_kernel(client: &mut Client) {
    for _ in 0..3 {
        client.say("GET nothing");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// What PROCEDURES says of this one.
pub fn shown(client: &mut Client, name: &str) -> Reply {
    let found = find(client, name);
    found.unwrap_or_else(|all| panic!("no {name} in {all}"))
}

/// The same; else all that there are. While a library is compiled, it has one line for all.
fn find(client: &mut Client, name: &str) -> Result<Reply, Reply> {
    let all = ask(client, &["PROCEDURES"]);
    let found = all.items.iter().find(|one| is(one, "name", name));
    found.cloned().ok_or(all)
}

/// 0 also while its library is compiled.
fn calls(client: &mut Client, name: &str, field: &str) -> i64 {
    let found = find(client, name);
    found.map_or(0, |one| {
        let calls = one.field(field).and_then(Reply::number);
        calls.expect("a number")
    })
}

/// Calls of it that the kernel has answered.
pub fn kernel_calls(client: &mut Client, name: &str) -> i64 {
    calls(client, name, "calls")
}

/// Those of them that the daemon had the kernel run.
pub fn daemon_calls(client: &mut Client, name: &str) -> i64 {
    calls(client, name, "calls_by_daemon")
}
