//! redis-py.

use crate::common::TestServer;
use crate::install::{Source, run, try_run};

#[test]
fn redis_py() {
    let source = Source::of("redis_py", &["requirements.txt"]);
    let folder = source.installed(|folder| {
        let venv = folder.join("venv");
        let arguments = ["-m", "venv", venv.to_str().expect("a path")];
        try_run("python3", &arguments, folder)?;
        let pip = venv.join("bin/pip");
        let arguments = [
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--require-hashes",
            "--requirement",
            "requirements.txt",
        ];
        try_run(pip.to_str().expect("a path"), &arguments, folder).map(drop)
    });
    let server = TestServer::shared();
    let python = folder.join("venv/bin/python");
    let script = source.file("session.py");
    run(
        python.to_str().expect("a path"),
        &[
            script.to_str().expect("a path"),
            &server.address.port().to_string(),
        ],
        &folder,
    );
}
