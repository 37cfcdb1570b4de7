//! redis-py.

use crate::common::TestServer;
use crate::install::{Source, run};

#[test]
fn redis_py() {
    let source = Source::of("redis_py", &["requirements.txt"]);
    let folder = source.installed(|folder| {
        let venv = folder.join("venv");
        run(
            "python3",
            &["-m", "venv", venv.to_str().expect("a path")],
            folder,
        );
        let pip = venv.join("bin/pip");
        let arguments = [
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--require-hashes",
            "--requirement",
            "requirements.txt",
        ];
        run(pip.to_str().expect("a path"), &arguments, folder);
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
