//! Results, and what fails everywhere: variables and files.

use std::env;
use std::fs;
use std::path::Path;

/// An error is a text, for the log of the build.
pub type Result<T> = std::result::Result<T, String>;

pub(crate) fn variable(name: &str) -> Result<String> {
    env::var(name).map_err(|error| format!("variable {name}: {error}"))
}

pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
