//! Outcomes and Errors, generated from the one list in
//! `include/bpfdb/status.h`.

use std::fmt;

include!(concat!(env!("OUT_DIR"), "/status.rs"));

impl Status {
    /// The status with this code, as a program wrote it.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|status| status.code() == code)
    }

    pub const fn code(self) -> u32 {
        self as u32
    }

    pub const fn is_error(self) -> bool {
        self.code() >= crate::abi::BPFDB_FIRST_ERROR
    }

    /// Has the log refused a write: for a moment ([`Status::LogFull`]), or until it takes writes
    /// again ([`Status::LogClosed`])? An auto-commit was not executed, a transaction is still open.
    pub const fn is_refused_by_log(self) -> bool {
        matches!(self, Self::LogFull | Self::LogClosed)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_c() {
        assert_eq!(Status::Ok.code(), crate::abi::BPFDB_OK);
        assert_eq!(Status::OutOfMemory.code(), crate::abi::BPFDB_OUT_OF_MEMORY);
        assert_eq!(
            Status::NotIndexed.code() + 1,
            crate::abi::BPFDB_STATUS_COUNT
        );
    }

    #[test]
    fn every_status_comes_back_from_its_code() {
        for &status in Status::ALL {
            assert_eq!(Status::from_code(status.code()), Some(status));
        }
        assert_eq!(Status::from_code(crate::abi::BPFDB_STATUS_COUNT), None);
    }

    #[test]
    fn errors_start_at_the_first_error() {
        assert!(!Status::NotFound.is_error());
        assert!(Status::Conflict.is_error());
    }
}
