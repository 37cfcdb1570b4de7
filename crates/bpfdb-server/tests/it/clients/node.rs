//! node-redis and ioredis.

use std::fs;
use std::path::Path;
use std::process;

use bpfdb_tests::install::{Source, run, try_run};
use bpfdb_tests::server::TestServer;

fn install(folder: &Path) -> Result<(), String> {
    let arguments = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"];
    try_run("npm", &arguments, folder).map(drop)
}

fn session(name: &'static str) {
    let source = Source::of(
        env!("CARGO_MANIFEST_DIR"),
        name,
        &["package.json", "package-lock.json"],
    );
    let folder = source.installed(install);
    // Node looks for modules beside the script. Another run of the tests may be
    // reading it.
    let (script, new) = (folder.join("session.mjs"), format!("new-{}", process::id()));
    fs::copy(source.file("session.mjs"), folder.join(&new)).expect("copied");
    fs::rename(folder.join(&new), script).expect("renamed");
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
