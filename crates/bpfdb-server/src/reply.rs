//! Outcomes to bytes: RESP2.

use bpfdb::{Status, abi};

/// Replies to one client, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    bytes: Vec<u8>,
}

impl Replies {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    fn line(&mut self, marker: u8, text: impl AsRef<[u8]>) {
        self.bytes.push(marker);
        self.bytes.extend_from_slice(text.as_ref());
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(crate) fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    pub(crate) fn ok(&mut self) {
        self.simple("OK");
    }

    /// An error; its first word is the code. A line is all that it may be.
    pub(crate) fn error(&mut self, text: impl AsRef<[u8]>) {
        let mut text = text.as_ref().to_vec();
        while text.last().is_some_and(|byte| b"\r\n".contains(byte)) {
            text.pop();
        }
        for byte in &mut text {
            if b"\r\n".contains(byte) {
                *byte = b' ';
            }
        }
        self.line(b'-', text);
    }

    pub(crate) fn integer(&mut self, value: i64) {
        self.line(b':', value.to_string());
    }

    pub(crate) fn array(&mut self, len: usize) {
        self.line(b'*', len.to_string());
    }

    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.line(b'$', bytes.len().to_string());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(crate) fn nil_array(&mut self) {
        self.line(b'*', "-1");
    }

    pub(crate) fn nil(&mut self) {
        self.line(b'$', "-1");
    }
}

/// A text that C and Rust share.
fn shared(text: &'static [u8]) -> &'static [u8] {
    text.strip_suffix(b"\0").unwrap_or(text)
}

/// What is wrong when the session is in no state for BEGIN.
pub(crate) fn nested() -> &'static [u8] {
    shared(abi::BPFDB_REPLY_NESTED)
}

pub(crate) fn no_transaction() -> &'static [u8] {
    shared(abi::BPFDB_REPLY_NO_TRANSACTION)
}

pub(crate) fn failed() -> &'static [u8] {
    shared(abi::BPFDB_REPLY_FAILED)
}

/// The reply to an Error of a statement; the kernel says the same
/// (`bpf/net/resp_error.bpf.h`).
pub(crate) fn error_text(status: Status, in_transaction: bool) -> Vec<u8> {
    match status {
        Status::Conflict if in_transaction => shared(abi::BPFDB_REPLY_CONFLICT).to_vec(),
        Status::Conflict => shared(abi::BPFDB_REPLY_CONFLICT_AUTO).to_vec(),
        Status::OutOfMemory => shared(abi::BPFDB_REPLY_OOM).to_vec(),
        Status::WrongState if in_transaction => failed().to_vec(),
        other => format!("ERR {}; {}", other.text(), other.action()).into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_one_line() {
        let mut replies = Replies::default();
        replies.error("ERR a\r\nb\n\r\n");
        assert_eq!(replies.take(), b"-ERR a  b\r\n");
    }

    #[test]
    fn every_status_has_a_text() {
        for &status in Status::ALL {
            let text = error_text(status, true);
            assert!(text.len() > 8, "{status:?}");
            assert!(!text.contains(&0), "{status:?}");
        }
    }
}
