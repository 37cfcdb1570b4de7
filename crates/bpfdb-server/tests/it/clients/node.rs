//! node-redis and ioredis.

use std::fs;
use std::path::PathBuf;
use std::process;

use bpfdb_tests::install::{Source, npm, run};
use bpfdb_tests::server::TestServer;

/// The folder of a library, with this script in it.
pub(super) fn installed(name: &'static str, script: &str) -> PathBuf {
    let source = Source::of(
        env!("CARGO_MANIFEST_DIR"),
        name,
        &["package.json", "package-lock.json"],
    );
    let folder = source.installed(npm);
    // Node looks for modules beside the script. Another run of the tests may be
    // reading it.
    let new = folder.join(format!("new-{}-{script}", process::id()));
    fs::copy(source.file(script), &new).expect("copied");
    fs::rename(new, folder.join(script)).expect("renamed");
    folder
}

fn session(name: &'static str) {
    let folder = installed(name, "session.mjs");
    let server = TestServer::shared();
    let port = server.address.port().to_string();
    run("node", &["session.mjs", &port], &folder);
}

#[test]
fn node_redis() {
    session("node_redis");
}

#[test]
fn ioredis() {
    session("ioredis");
}
