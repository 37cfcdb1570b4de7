//! More scripts than the kernel has room for programs.

use std::time::{Duration, Instant};

use bpfdb::abi;

use super::common::{Client, Reply, patience, request, wait_until};
use super::{ask, is, server};

/// A slot stays empty.
const PROGRAMS: usize = abi::BPFDB_PROCEDURE_SLOTS as usize - 1;
/// Those that come when there is no room any more.
const LATE: usize = 5;

/// Scripts, and what their calls have added to one key.
struct Scripts {
    client: Client,
    names: Vec<String>,
    sum: i64,
}

impl Scripts {
    fn new(client: Client) -> Self {
        let mut all = Self {
            client,
            names: Vec::new(),
            sum: 0,
        };
        for number in 0..PROGRAMS + LATE {
            let text = format!("return redis.call('INCRBY', KEYS[1], {number})");
            let name = ask(&mut all.client, &["SCRIPT", "LOAD", &text]).text;
            all.names.push(String::from_utf8(name).expect("digits"));
        }
        all
    }

    /// Whoever runs it, it does what it says.
    fn call(&mut self, number: usize) {
        let words = ["EVALSHA", &self.names[number], "1", "sum"];
        let reply = ask(&mut self.client, &words);
        self.sum += number as i64;
        assert_eq!(reply.number(), Some(self.sum), "{number}: {reply}");
    }

    /// Which of them are in the kernel.
    fn in_kernel(&mut self) -> Vec<usize> {
        let all = ask(&mut self.client, &["PROCEDURES"]);
        let in_kernel = |name: &String| {
            let here = |one: &&Reply| is(one, "name", name) && is(one, "path", "kernel");
            all.items.iter().any(|one| here(&one))
        };
        let names = self.names.iter().enumerate();
        let found: Vec<usize> = names
            .filter(|(_, name)| in_kernel(name))
            .map(|(number, _)| number)
            .collect();
        assert!(found.len() <= PROGRAMS, "{}", found.len());
        found
    }

    /// Calls these until they are in the kernel.
    fn bring(&mut self, numbers: &[usize]) {
        let start = Instant::now();
        loop {
            let found = self.in_kernel();
            let mut missing = numbers.to_vec();
            missing.retain(|number| !found.contains(number));
            if missing.is_empty() {
                return;
            }
            assert!(start.elapsed() < patience(), "missing: {missing:?}");
            for number in missing {
                self.call(number);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
#[ignore = "half a minute: make soak"]
fn soak_scripts_make_room_for_each_other() {
    let server = server();
    let mut scripts = Scripts::new(server.client());
    let early: Vec<usize> = (0..PROGRAMS).collect();
    scripts.bring(&early);
    for number in PROGRAMS..PROGRAMS + LATE {
        scripts.bring(&[number]);
    }
    let found = scripts.in_kernel();
    assert_eq!(found.len(), PROGRAMS);
    let lost: Vec<usize> = early
        .into_iter()
        .filter(|number| !found.contains(number))
        .collect();
    assert_eq!(lost.len(), LATE, "{lost:?}");
    // They come back, in the place of others.
    scripts.bring(&lost);
    let found = scripts.in_kernel();
    assert_eq!(found.len(), PROGRAMS);
    for number in 0..PROGRAMS + LATE {
        scripts.call(number);
    }
    a_library_finds_room(&mut scripts);
}

fn library(number: usize, result: u32) -> String {
    format!(
        "#!lua name=lib{number}\nredis.register_function('f{number}', function() return {result} end)"
    )
}

fn is_in_kernel(client: &mut Client, name: &str) -> bool {
    let all = ask(client, &["PROCEDURES"]);
    let one = all.items.iter().find(|one| is(one, "name", name));
    one.is_some_and(|one| is(one, "path", "kernel"))
}

/// A script makes room for it, and libraries stay.
fn a_library_finds_room(scripts: &mut Scripts) {
    let reply = ask(&mut scripts.client, &["FUNCTION", "LOAD", &library(0, 1)]);
    assert!(!reply.is_error(), "{reply}");
    wait_until("the function is in the kernel", || {
        is_in_kernel(&mut scripts.client, "f0")
    });
    assert_eq!(scripts.in_kernel().len(), PROGRAMS - 1);
    // All of them make room at once.
    assert_eq!(scripts.client.say("SCRIPT FLUSH"), "+OK\r\n");
    let text = "return redis.call('INCRBY', KEYS[1], 0)";
    let name = ask(&mut scripts.client, &["SCRIPT", "LOAD", text]).text;
    let name = String::from_utf8(name).expect("digits");
    wait_until("the next script is in the kernel", || {
        ask(&mut scripts.client, &["EVALSHA", &name, "1", "sum"]);
        is_in_kernel(&mut scripts.client, &name)
    });
}

/// As many libraries as there are programs. Only the next one waits; a version of
/// a library takes the place of the one before.
#[test]
#[ignore = "a minute: make soak"]
fn soak_libraries_wait_for_room() {
    let server = server();
    let mut client = server.client();
    let mut pipeline = Vec::new();
    for number in 0..=PROGRAMS {
        let text = library(number, 1);
        pipeline.extend(request(&[b"FUNCTION", b"LOAD", text.as_bytes()]));
    }
    client.send(&pipeline);
    for _ in 0..=PROGRAMS {
        client.reply();
    }
    let in_kernel = |client: &mut Client| {
        let all = ask(client, &["PROCEDURES"]);
        let count = all.items.iter().filter(|one| is(one, "path", "kernel"));
        count.count()
    };
    wait_until("all programs are taken", || {
        in_kernel(&mut client) == PROGRAMS
    });
    let reply = ask(
        &mut client,
        &["FUNCTION", "LOAD", "REPLACE", &library(1, 2)],
    );
    assert!(!reply.is_error(), "{reply}");
    wait_until("all programs are taken again", || {
        in_kernel(&mut client) == PROGRAMS
    });
    for number in 0..=PROGRAMS {
        let reply = ask(&mut client, &["FCALL", &format!("f{number}"), "0"]);
        assert_eq!(reply.number(), Some(if number == 1 { 2 } else { 1 }));
    }
    assert_eq!(client.say("FUNCTION DELETE lib0"), "+OK\r\n");
    wait_until("all that are left have one", || {
        in_kernel(&mut client) == PROGRAMS
    });
}
