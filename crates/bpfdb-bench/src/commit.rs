//! Which source was measured.

use std::fmt;
use std::process::Command;

use serde::{Serialize, Serializer};

/// Digits of a hash that people are shown.
const SHOWN: usize = 12;
const DIRTY: &str = "-dirty";

/// A commit, or one with changes to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    hash: String,
    dirty: bool,
}

impl Commit {
    /// That of the folder that this program was compiled in, as it is now: `make bench`
    /// compiles it before. `None` without git, or outside of a repository.
    pub(crate) fn checked_out() -> Option<Self> {
        let output = Command::new("git")
            .args(["-C", env!("CARGO_MANIFEST_DIR")])
            // The hash in full, whatever tags there are.
            .args([
                "describe",
                "--always",
                "--dirty",
                "--abbrev=40",
                "--exclude=*",
            ])
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| Self::parse(text.trim()))?
    }

    fn parse(text: &str) -> Option<Self> {
        let hash = text.strip_suffix(DIRTY).unwrap_or(text);
        let is_hash = !hash.is_empty() && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| Self {
            hash: hash.to_owned(),
            dirty: hash != text,
        })
    }

    fn mark(&self) -> &'static str {
        if self.dirty { DIRTY } else { "" }
    }
}

/// Shortened.
impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = &self.hash[..self.hash.len().min(SHOWN)];
        write!(f, "{short}{}", self.mark())
    }
}

/// In full.
impl Serialize for Commit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}{}", self.hash, self.mark()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn changes_are_marked() {
        let clean = Commit::parse(HASH).expect("a hash");
        assert_eq!(clean.to_string(), "0123456789ab");
        assert_eq!(serde_json::json!(clean), HASH);
        let text = format!("{HASH}-dirty");
        let dirty = Commit::parse(&text).expect("a hash");
        assert_eq!(dirty.to_string(), "0123456789ab-dirty");
        assert_eq!(serde_json::json!(dirty), text.as_str());
        assert_eq!(Commit::parse(""), None);
        assert_eq!(Commit::parse("v1.0-3-g0123"), None);
    }
}
