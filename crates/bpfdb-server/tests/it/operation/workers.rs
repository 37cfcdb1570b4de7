//! The priority of the kernel's workers.

use std::fs;
use std::process;

use bpfdb_server::settings::{LocalClients, Settings};

use bpfdb_tests::server::{Client, TestServer, wait_until};

/// Another one in each run of this test: they may share the machine.
fn nice() -> i64 {
    -1 - i64::from(process::id() % 18)
}

/// Workers of the kernel with this nice value.
fn preferred(nice: i64) -> Vec<u32> {
    let threads = fs::read_dir("/proc").expect("/proc").flatten();
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    let of_nice = |stat: String| {
        let (front, rest) = stat.rsplit_once(')').expect("a name");
        let value = rest.split_whitespace().nth(16).expect("a nice value");
        let (thread, name) = front.split_once(' ').expect("a number");
        let found = name.starts_with("(kworker/") && value == nice.to_string();
        found.then(|| thread.parse().expect("a number"))
    };
    stats.filter_map(of_nice).collect()
}

/// Until a worker that has answered this client is preferred.
fn wait_for_worker(client: &mut Client) {
    wait_until("a worker is preferred", || {
        assert_eq!(client.say("ping"), "+PONG\r\n");
        !preferred(nice()).is_empty()
    });
}

#[test]
fn the_kernels_workers_are_preferred_while_the_setting_says_so() {
    let server = TestServer::start_as_told(
        &bpfdb::Options::default(),
        Settings {
            local_clients: LocalClients::Off,
            ..Settings::default()
        },
    );
    let mut client = server.client();
    assert_eq!(client.say("ping"), "+PONG\r\n");
    assert_eq!(preferred(nice()), [0; 0]);

    let prefer = format!("config set worker-nice {}", nice());
    assert_eq!(client.say(&prefer), "+OK\r\n");
    wait_for_worker(&mut client);
    let workers = preferred(nice());
    assert_eq!(client.say("config set worker-nice 0"), "+OK\r\n");
    wait_until("they are as they were", || preferred(nice()).is_empty());

    // A server that was killed, with another setting, has left them so.
    renice(&workers, -20);
    assert_eq!(client.say(&prefer), "+OK\r\n");
    let mut again = Vec::new();
    wait_until("one of them is preferred again", || {
        assert_eq!(client.say("ping"), "+PONG\r\n");
        again = preferred(nice());
        again.retain(|worker| workers.contains(worker));
        !again.is_empty()
    });
    server.stop();
    assert_eq!(preferred(nice()), [0; 0]);
    let left = preferred(-20);
    renice(&workers, 0);
    assert!(!again.iter().any(|worker| left.contains(worker)));
}

fn renice(workers: &[u32], nice: i32) {
    for &worker in workers {
        // SAFETY: plain system call. The worker may have ended.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, worker, nice) };
    }
}
