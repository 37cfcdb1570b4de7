//! The data directory is removed while a server uses it.

use std::fs;

use crate::common::{Served, alone, fails, succeeds, text, wait_until, with_log};

/// A file without a name takes writes and flushes as before, and no start finds it again.
#[test]
fn nothing_is_acknowledged_into_a_directory_that_was_removed() {
    alone();
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let sync = ["--appendfsync", "always"];
    let server = Served::start_in(&data, 0, &sync);
    let port = server.port;
    assert_eq!(server.ask(&["SET", "before", "1"]), "+OK");
    fs::remove_dir_all(&data).expect("removed");
    let reply = server.ask(&["SET", "after", "2"]);
    assert!(reply.starts_with('-'), "{reply}");
    wait_until("the log has failed", || {
        server.field("persistence", "log_state") == "failed"
    });
    assert_eq!(server.ask(&["GET", "before"]), "1");
    // It has data that no file has.
    assert_eq!(server.end().code(), Some(1));

    let port = port.to_string();
    let start = [&["serve", "--port", &port][..], &with_log(&data)].concat();
    let told = fails(&start);
    let advice = format!("bpfdb dump --port {port}");
    assert!(told.contains(&advice), "{told}");
    let copy = directory.path().join("copy.jsonl");
    succeeds(&["dump", "--port", &port, "--output", text(&copy)]);
    let copy = fs::read_to_string(copy).expect("a copy");
    assert!(copy.contains(r#"{"key":"before","value":"1"}"#), "{copy}");
}
