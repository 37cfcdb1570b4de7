//! More scripts than the kernel has room for programs.

use std::time::{Duration, Instant};

use bpfdb::abi;

use super::common::{Client, Reply, patience, wait_until};
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
fn scripts_make_room_for_each_other() {
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

/// A script makes room for it, and libraries stay.
fn a_library_finds_room(scripts: &mut Scripts) {
    let library = "#!lua name=lib\nredis.register_function('one', function() return 1 end)";
    let reply = ask(&mut scripts.client, &["FUNCTION", "LOAD", library]);
    assert!(!reply.is_error(), "{reply}");
    wait_until("the function is in the kernel", || {
        let all = ask(&mut scripts.client, &["PROCEDURES"]);
        let one = all.items.iter().find(|one| is(one, "name", "one"));
        one.is_some_and(|one| is(one, "path", "kernel"))
    });
    assert_eq!(scripts.in_kernel().len(), PROGRAMS - 1);
}
