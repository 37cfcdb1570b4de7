//! Where PostgreSQL is, and as which user it runs.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use nix::unistd::{User, geteuid};

/// Of Debian: a folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// It refuses to run as root.
pub(crate) const USER: &str = "postgres";

/// The folder of the newest version's programs.
pub(super) fn folder() -> Result<PathBuf> {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<f64>().ok();
    let newest = versions
        .map(|entry| entry.path())
        .filter(|path| path.join("bin/initdb").is_file())
        .max_by(|a, b| {
            version(a)
                .partial_cmp(&version(b))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
    let in_path = || {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).find(|folder| folder.join("initdb").is_file())
    };
    newest
        .map(|path| path.join("bin"))
        .or_else(in_path)
        .context("no PostgreSQL: run scripts/setup.sh")
}

/// Whose PostgreSQL is: its own user, if we are root.
fn user() -> Result<Option<User>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let user = User::from_name(USER)?;
    user.map(Some)
        .with_context(|| format!("there is no user {USER}"))
}

pub(crate) fn as_user(command: &mut Command) -> Result<&mut Command> {
    if let Some(user) = user()? {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        command.current_dir("/");
    }
    Ok(command)
}

/// Makes a folder that user's.
pub(crate) fn give_away(folder: &Path) -> Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    give_away_file(folder)
}

pub(crate) fn give_away_file(file: &Path) -> Result<()> {
    if let Some(user) = user()? {
        chown(file, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
    }
    Ok(())
}

pub(super) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(super) fn succeed(command: &mut Command) -> Result<Output> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    let last = lines[lines.len().saturating_sub(5)..].join("; ");
    ensure!(output.status.success(), "{command:?}: {last}");
    Ok(output)
}
