//! Pages whose values are in files: the kernel leaves them to the daemon, which reads them.

use bpfdb_log::simulation::SimulatedDisk;
use bpfdb_server::settings::Settings;
use bpfdb_tests::server::{Client, TestServer, wait_until};

use crate::groups::figure;

use super::{agree, fill, socket};

/// Each value goes to a file as soon as no transaction has it.
fn start(folder: &std::path::Path) -> TestServer {
    let settings = Settings {
        unix_socket: Some(socket(folder)),
        ..Settings::default()
    };
    let server = TestServer::start_tiered(SimulatedDisk::new(23), settings);
    server.loader.wait();
    server.large_loader.wait();
    server
}

#[test]
fn commands_on_cold_pages_agree_with_redis() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(folder.path());
    let daemon = Client::connect_unix(&socket(folder.path()));
    agree([server.client(), daemon], 3000, 29);
    let mut client = server.client();
    assert!(figure(&mut client, "tier_demotions") > 0);
    assert!(figure(&mut client, "tier_fetches") > 0);
}

/// What takes a collection away, or writes it anew, with pages in files.
#[test]
fn collections_with_cold_pages_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(folder.path());
    let mut client = server.client();
    for round in 0..3 {
        fill(&mut client);
        wait_until("pages are in files", || {
            figure(&mut client, "tier_values") > 20
        });
        for (command, reply) in [
            ("RENAME h other", "+OK\r\n"),
            ("COPY other h", ":1\r\n"),
            ("HLEN h", ":4000\r\n"),
            ("ZUNIONSTORE twice 2 z z", ":4000\r\n"),
            ("ZSCORE twice m96", "$3\r\n192\r\n"),
            ("SINTERSTORE s s s", ":4000\r\n"),
            ("LINSERT l BEFORE e2000 new", ":4001\r\n"),
            ("LINDEX l 2000", "$3\r\nnew\r\n"),
            ("DEL h other z twice s l", ":6\r\n"),
        ] {
            assert_eq!(client.say(command), reply, "round {round}: {command}");
        }
        wait_until("no page is left", || {
            figure(&mut client, "tier_values") == 0
        });
    }
}
