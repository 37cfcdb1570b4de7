//! Which processors an engine runs on. The accesses of its programs are ordered for
//! others too (`docs/decisions/0014-memory-order.md`), but that was never seen to hold on
//! one: a mistake there would lose data, seldom and without a word.

use std::env::consts::ARCH;

use crate::error::{Error, Result};

/// As `std::env::consts::ARCH` and `uname` name it.
const SHOWN: &str = "x86_64";

/// May an engine run on this `architecture`?
///
/// # Errors
/// [`Error::Architecture`] if not.
pub fn check(architecture: &str) -> Result<()> {
    if architecture == SHOWN {
        return Ok(());
    }
    Err(Error::Architecture {
        architecture: architecture.to_owned(),
    })
}

/// The same for the machine that this program was compiled for.
///
/// # Errors
/// As of [`check`].
pub fn check_own() -> Result<()> {
    check(ARCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_runs_where_it_was_shown_to() {
        assert!(check("x86_64").is_ok());
        assert!(check_own().is_ok());
    }

    #[test]
    fn another_architecture_is_refused_in_one_line() {
        for architecture in ["aarch64", "riscv64", "s390x", "x86", ""] {
            let error = check(architecture).expect_err(architecture);
            let line = error.to_string();

            assert!(matches!(error, Error::Architecture { .. }));
            assert!(line.contains(architecture) && line.contains("x86-64"));
            assert!(line.contains("memory order"), "{line}");
            assert!(!line.contains('\n'));
        }
    }
}
