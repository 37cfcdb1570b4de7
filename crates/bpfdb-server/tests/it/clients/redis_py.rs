//! redis-py.

use bpfdb_tests::install::{Source, python, run};
use bpfdb_tests::server::TestServer;

#[test]
fn redis_py() {
    let source = Source::of(
        env!("CARGO_MANIFEST_DIR"),
        "redis_py",
        &["requirements.txt"],
    );
    let folder = source.installed(python);
    let server = TestServer::shared();
    let interpreter = folder.join("venv/bin/python");
    let script = source.file("session.py");
    run(
        interpreter.to_str().expect("a path"),
        &[
            script.to_str().expect("a path"),
            &server.address.port().to_string(),
        ],
        &folder,
    );
}
