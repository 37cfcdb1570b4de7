//! redis-py.

use std::path::PathBuf;

use bpfdb_tests::install::{Source, python, run};
use bpfdb_tests::server::TestServer;

pub(super) fn source() -> Source {
    Source::of(
        env!("CARGO_MANIFEST_DIR"),
        "redis_py",
        &["requirements.txt"],
    )
}

/// The folder, and the interpreter in it.
pub(super) fn installed() -> (PathBuf, String) {
    let folder = source().installed(python);
    let interpreter = folder.join("venv/bin/python");
    let interpreter = interpreter.to_str().expect("a path").to_owned();
    (folder, interpreter)
}

#[test]
fn redis_py() {
    let (folder, interpreter) = installed();
    let server = TestServer::shared();
    let script = source().file("session.py");
    let port = server.address.port().to_string();
    let arguments = [script.to_str().expect("a path"), &port];
    run(&interpreter, &arguments, &folder);
}
