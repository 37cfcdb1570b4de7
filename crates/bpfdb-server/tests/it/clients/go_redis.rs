//! go-redis.

use bpfdb_tests::install::{Source, run, try_run};
use bpfdb_tests::server::TestServer;

#[test]
fn go_redis() {
    let source = Source::of(
        env!("CARGO_MANIFEST_DIR"),
        "go_redis",
        &["go.mod", "go.sum", "main.go"],
    );
    let folder = source.installed(|folder| {
        // Without C, it is built in half the time.
        // Debian's own Go does not get the version that go.mod asks for, unless it is told to.
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
    let server = TestServer::shared();
    let session = folder.join("session");
    let port = server.address.port().to_string();
    run(session.to_str().expect("a path"), &[&port], &folder);
}
