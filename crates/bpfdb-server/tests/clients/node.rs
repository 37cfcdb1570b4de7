//! node-redis and ioredis.

use std::fs;
use std::path::Path;

use crate::common::TestServer;
use crate::install::{Source, run};

fn installed(folder: &Path) {
    let arguments = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"];
    run("npm", &arguments, folder);
}

fn session(name: &'static str) {
    let source = Source::of(name, &["package.json", "package-lock.json"]);
    let folder = source.installed(installed);
    // Node looks for modules beside the script.
    fs::copy(source.file("session.mjs"), folder.join("session.mjs")).expect("copied");
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
