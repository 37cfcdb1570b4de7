//! A log that has failed, and checkpoints on a disk that does not answer.

use bpfdb_log::simulation::{Fault, Operation, SimulatedDisk};

use super::common::{TestServer, wait_until};
use super::{Logged, is_told_nothing, send, settle, start};

/// The log of a server fails; `k` is 2 in its memory, and 1 on the disk.
fn failed(disk: &SimulatedDisk) -> Logged {
    let server = start(disk);
    let mut writer = server.client();
    assert_eq!(writer.say("MSET k 1 old 1"), "+OK\r\n");
    settle(disk, &mut writer);
    assert_eq!(writer.say("SET k 2"), "+OK\r\n");
    for operation in [Operation::Write, Operation::Flush] {
        for nth in 0..4 {
            disk.fail(operation, nth, Fault::Error);
        }
    }
    disk.hold(false);
    wait_until("the log has failed", || {
        writer.say("SET other 1").starts_with("-MISCONF ")
    });
    server
}

/// Nobody will ever say that it is durable.
#[test]
fn who_asks_after_a_failure_for_what_is_not_durable_is_told_so() {
    let disk = SimulatedDisk::new(1);
    let server = failed(&disk);
    for command in ["GET k", "EXISTS k", "DBSIZE", "KEYS *", "SETNX k 3"] {
        let mut own = sync_after_failure(&server);
        let told = own.say(command);
        assert!(told.starts_with("-MISCONF "), "{command}: {told}");
        assert!(own.is_closed(), "{command}");
    }
    let mut own = sync_after_failure(&server);
    assert_eq!(own.say("GET old"), "$1\r\n1\r\n", "that is durable");
    let told = own.say("INFO persistence");
    assert!(told.contains("log_state:failed"), "{told}");
    let told = own.say("INFO");
    assert!(told.contains("log_state:failed"), "{told}");
}

/// A command that goes on in steps is not ended by them.
#[test]
fn nothing_follows_the_word_that_the_log_has_failed() {
    let disk = SimulatedDisk::new(5);
    let server = failed(&disk);
    for pipeline in [&["KEYS *"][..], &["GET k", "KEYS *", "GET old"]] {
        let mut own = sync_after_failure(&server);
        send(&mut own, pipeline);
        let told = String::from_utf8(own.until_closed()).expect("text");
        assert!(told.starts_with("-MISCONF "), "{pipeline:?}: {told}");
        assert_eq!(told.matches("\r\n").count(), 1, "{pipeline:?}: {told}");
    }
}

/// On a full disk a synchronous client waits for what is not durable, and for nothing else.
#[test]
fn who_asks_on_a_full_disk_for_what_is_not_durable_waits_for_space() {
    let disk = SimulatedDisk::new(6);
    let server = start(&disk);
    let mut writer = server.client();
    assert_eq!(writer.say("SET old 1"), "+OK\r\n");
    assert_eq!(writer.say("WAITAOF 1 0 0"), "*2\r\n:1\r\n:0\r\n");
    disk.set_capacity(0);
    let value = "v".repeat(10_000);
    let mut last = String::new();
    for n in 0.. {
        let key = format!("k{n}");
        let told = writer.say(&format!("SET {key} {value}"));
        if told == "+OK\r\n" {
            last = key;
        } else if told.starts_with("-MISCONF no space") {
            break;
        }
    }
    assert!(!last.is_empty(), "something was written first");

    let commands = ["GET", "EXISTS", "STRLEN", "GETRANGE"];
    let mut waiting: Vec<_> = commands
        .iter()
        .map(|command| {
            let end = if *command == "GETRANGE" { " 0 0" } else { "" };
            let mut own = sync_after_failure(&server);
            send(&mut own, &[&format!("{command} {last}{end}")]);
            own
        })
        .collect();
    for (own, command) in waiting.iter_mut().zip(commands) {
        is_told_nothing(own, command);
    }
    let mut own = sync_after_failure(&server);
    assert_eq!(own.say("GET old"), "$1\r\n1\r\n", "that is durable");
    for command in [
        "INFO",
        "SLOWLOG GET",
        "MEMORY DOCTOR",
        "MEMORY MALLOC-STATS",
    ] {
        let told = own.say(command);
        assert!(!told.starts_with('-'), "{command}: {told}");
    }

    disk.set_capacity(usize::MAX);
    let replies = [
        format!("$10000\r\n{value}\r\n"),
        ":1\r\n".to_owned(),
        ":10000\r\n".to_owned(),
        "$1\r\nv\r\n".to_owned(),
    ];
    for (own, reply) in waiting.iter_mut().zip(replies) {
        assert_eq!(own.reply(), reply.as_bytes());
    }
}

/// A choice that is possible then, too.
fn sync_after_failure(server: &TestServer) -> super::Client {
    let mut own = server.client();
    assert_eq!(own.say("CLIENT DURABILITY SYNC"), "+OK\r\n");
    own
}

#[test]
fn a_transaction_is_not_told_to_be_durable_after_a_failure() {
    let disk = SimulatedDisk::new(2);
    let server = failed(&disk);
    let mut own = server.client();
    send(&mut own, &["BEGIN", "GET k", "COMMIT SYNC"]);
    assert_eq!(own.reply(), b"+OK\r\n");
    assert_eq!(own.reply(), b"$1\r\n2\r\n");
    let told = String::from_utf8(own.reply()).expect("text");
    assert!(told.starts_with("-MISCONF "), "{told}");
    let mut own = server.client();
    let told = own.say("WAITAOF 1 0 0");
    assert!(told.starts_with("-MISCONF "), "{told}");
    assert_eq!(own.say("WAITAOF 0 0 0"), "*2\r\n:0\r\n:0\r\n");
}

#[test]
fn a_checkpoint_follows_the_one_that_is_being_made() {
    let disk = SimulatedDisk::new(3);
    let server = start(&disk);
    let mut client = server.client();
    assert_eq!(client.say("SET a 1"), "+OK\r\n");
    settle(&disk, &mut client);
    let begun = client.say("BGSAVE");
    assert_eq!(begun, "+Background saving started\r\n");
    let running = "rdb_bgsave_in_progress:1";
    wait_until("it is being made", || {
        client.say("INFO persistence").contains(running)
    });
    let told = client.say("BGSAVE");
    assert_eq!(told, "-ERR Background save already in progress\r\n");
    assert!(client.say("SAVE").starts_with("-ERR "));
    assert!(client.say("BGREWRITEAOF").starts_with("-ERR "));
    let told = client.say("BGSAVE SCHEDULE");
    assert_eq!(told, "+Background saving scheduled\r\n");
    disk.hold(false);
    wait_until("both are made", || {
        client
            .say("INFO persistence")
            .contains("checkpoint_attempts:2")
    });
    let told = client.say("INFO persistence");
    assert!(told.contains("checkpoint_failures:0"), "{told}");
}

#[test]
fn changes_are_counted_since_the_last_checkpoint() {
    let disk = SimulatedDisk::new(4);
    let server = start(&disk);
    let mut client = server.client();
    let changes = |client: &mut super::Client| {
        assert_eq!(client.say("WAITAOF 1 0 0"), "*2\r\n:1\r\n:0\r\n");
        let told = client.say("INFO persistence");
        let field = "rdb_changes_since_last_save:";
        let line = told.lines().find_map(|line| line.strip_prefix(field));
        line.and_then(|text| text.parse::<u64>().ok())
            .expect("a number")
    };
    assert_eq!(changes(&mut client), 0);
    for n in 0..5 {
        assert_eq!(client.say(&format!("SET k{n} 1")), "+OK\r\n");
    }
    assert_eq!(changes(&mut client), 5);
    assert_eq!(client.say("SAVE"), "+OK\r\n");
    assert_eq!(changes(&mut client), 0);
    assert_eq!(client.say("SET k1 2"), "+OK\r\n");
    assert_eq!(changes(&mut client), 1);
}
