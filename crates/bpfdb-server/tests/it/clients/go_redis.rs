//! go-redis.

use std::path::PathBuf;

use bpfdb_tests::install::{Source, run, try_run};
use bpfdb_tests::server::TestServer;

/// The folder, and the program in it.
pub(super) fn installed() -> (PathBuf, String) {
    let source = Source::of(
        env!("CARGO_MANIFEST_DIR"),
        "go_redis",
        &["go.mod", "go.sum", "main.go", "pipelines.go"],
    );
    let folder = source.installed(|folder| {
        // Without C, it is built in half the time.
        // Debian's own Go does not get the version that go.mod asks for, without this variable.
        let arguments = [
            "CGO_ENABLED=0",
            "GOTOOLCHAIN=auto",
            "go",
            "build",
            "-mod=readonly",
            "-o",
            "session",
            ".",
        ];
        try_run("env", &arguments, folder).map(drop)
    });
    let session = folder.join("session");
    let session = session.to_str().expect("a path").to_owned();
    (folder, session)
}

#[test]
fn go_redis() {
    let (folder, session) = installed();
    let server = TestServer::shared();
    let port = server.address.port().to_string();
    run(&session, &[&port], &folder);
}
