//! Outcomes to bytes: RESP2 and RESP3.

use bpfdb::{Status, abi};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

impl Protocol {
    /// As HELLO names it.
    pub fn version(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// What a bulk string has besides its bytes, at most.
const FRAME: usize = 32;

/// Replies to one client, one after the other, in its protocol. What RESP2 has
/// no type for is written as Redis does.
#[derive(Debug, Default)]
pub struct Replies {
    bytes: Vec<u8>,
    protocol: Protocol,
}

impl Replies {
    pub fn new(protocol: Protocol) -> Self {
        Self {
            bytes: Vec::new(),
            protocol,
        }
    }

    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Replies that follow are in this protocol.
    pub fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    fn is_resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Is the reply that begins there an error?
    pub fn is_error_at(&self, begin: usize) -> bool {
        self.bytes.get(begin) == Some(&b'-')
    }

    /// Moves those of another one behind these.
    pub fn absorb(&mut self, other: &mut Self) {
        if self.bytes.is_empty() {
            std::mem::swap(&mut self.bytes, &mut other.bytes);
        } else {
            self.bytes.append(&mut other.bytes);
        }
    }

    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Puts bytes before the reply that begins there.
    pub fn insert(&mut self, at: usize, bytes: Vec<u8>) {
        self.bytes.splice(at..at, bytes);
    }

    /// Adds replies that were written elsewhere.
    pub fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn line(&mut self, marker: u8, text: impl AsRef<[u8]>) {
        self.bytes.push(marker);
        self.bytes.extend_from_slice(text.as_ref());
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, marker: u8, value: i64) {
        self.line(marker, itoa::Buffer::new().format(value));
    }

    fn length(&mut self, marker: u8, len: usize) {
        self.number(marker, len as i64);
    }

    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// A line of any bytes; ends of lines become spaces.
    pub fn status(&mut self, text: &[u8]) {
        self.line(b'+', one_line(text));
    }

    pub fn ok(&mut self) {
        self.simple("OK");
    }

    /// An error; its first word is the code. A line is all that it may be.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        let end = text.iter().rposition(|byte| !b"\r\n".contains(byte));
        self.line(b'-', one_line(&text[..end.map_or(0, |last| last + 1)]));
    }

    pub fn integer(&mut self, value: i64) {
        self.number(b':', value);
    }

    pub fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        // All at once: the line behind a value of 512 MiB would double what is kept.
        self.bytes.reserve(bytes.len() + FRAME);
        self.length(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A value, or that there is none.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Text for people; its format has three letters.
    pub fn verbatim(&mut self, format: impl AsRef<[u8]>, text: impl AsRef<[u8]>) {
        let (format, text) = (format.as_ref(), text.as_ref());
        debug_assert_eq!(format.len(), 3);
        if self.is_resp3() {
            self.length(b'=', text.len() + 4);
            for part in [format, b":", text, b"\r\n"] {
                self.bytes.extend_from_slice(part);
            }
        } else {
            self.bulk(text);
        }
    }

    pub fn null(&mut self) {
        if self.is_resp3() {
            self.line(b'_', "");
        } else {
            self.line(b'$', "-1");
        }
    }

    /// In the place of an array.
    pub fn null_array(&mut self) {
        if self.is_resp3() {
            self.line(b'_', "");
        } else {
            self.line(b'*', "-1");
        }
    }

    pub fn array(&mut self, len: usize) {
        self.length(b'*', len);
    }

    /// That many pairs follow.
    pub fn map(&mut self, pairs: usize) {
        if self.is_resp3() {
            self.length(b'%', pairs);
        } else {
            self.length(b'*', 2 * pairs);
        }
    }

    pub fn set(&mut self, len: usize) {
        let marker = if self.is_resp3() { b'~' } else { b'*' };
        self.length(marker, len);
    }

    /// Something the client did not ask for.
    pub fn push(&mut self, len: usize) {
        let marker = if self.is_resp3() { b'>' } else { b'*' };
        self.length(marker, len);
    }

    pub fn boolean(&mut self, value: bool) {
        if self.is_resp3() {
            self.line(b'#', if value { "t" } else { "f" });
        } else {
            self.integer(value.into());
        }
    }

    /// A number with a point, as text.
    pub fn double(&mut self, text: &str) {
        if self.is_resp3() {
            self.line(b',', text);
        } else {
            self.bulk(text);
        }
    }

    /// An integer of any length, in digits; or what a script says to be one. A line is all that it may
    /// be, in both protocols.
    pub fn big_number(&mut self, digits: &[u8]) {
        let digits = one_line(digits);
        if self.is_resp3() {
            self.line(b'(', digits);
        } else {
            self.bulk(digits);
        }
    }
}

fn one_line(text: &[u8]) -> Vec<u8> {
    let visible = |&byte: &u8| if b"\r\n".contains(&byte) { b' ' } else { byte };
    text.iter().map(visible).collect()
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

pub(crate) fn wrong_type() -> &'static [u8] {
    shared(abi::BPFDB_REPLY_WRONG_TYPE)
}

pub(crate) fn failed() -> &'static [u8] {
    shared(abi::BPFDB_REPLY_FAILED)
}

/// The reply to an Error of a statement; the kernel says the same
/// (`bpf/redis/resp_error.bpf.h`).
pub(crate) fn error_text(status: Status, in_transaction: bool) -> Vec<u8> {
    match status {
        Status::OutOfMemory => shared(abi::BPFDB_REPLY_OOM).to_vec(),
        Status::WrongType => wrong_type().to_vec(),
        Status::WrongState if in_transaction => failed().to_vec(),
        Status::TierCorrupt => format!("TIER_CORRUPT {}", told(status)).into_bytes(),
        Status::TierUnavailable => format!("TIER_UNAVAILABLE {}", told(status)).into_bytes(),
        other => format!("ERR {}", told(other)).into_bytes(),
    }
}

fn told(status: Status) -> String {
    format!("{}; {}", status.text(), status.action())
}

/// What a client is to do after CONFLICT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConflictAction {
    /// Its transaction has failed.
    Rollback,
    /// Its command has done nothing.
    RunAgain,
    /// Its MULTI … EXEC has done nothing.
    RunBlockAgain,
}

/// The reply to CONFLICT, with the id of the client that holds the key, if one is known.
pub(crate) fn conflict_text(cause: &str, action: ConflictAction, client: Option<u64>) -> Vec<u8> {
    let mut text = format!("CONFLICT {cause}").into_bytes();
    text.extend_from_slice(match action {
        ConflictAction::Rollback => shared(abi::BPFDB_REPLY_CONFLICT_ACTION),
        ConflictAction::RunAgain => shared(abi::BPFDB_REPLY_CONFLICT_ACTION_AUTO),
        ConflictAction::RunBlockAgain => b"; the transaction was rolled back, run it again",
    });
    if let Some(client) = client {
        text.extend_from_slice(shared(abi::BPFDB_REPLY_CONFLICT_HOLDER));
        text.extend_from_slice(client.to_string().as_bytes());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(write: impl Fn(&mut Replies)) -> [String; 2] {
        [Protocol::Resp2, Protocol::Resp3].map(|protocol| {
            let mut replies = Replies::new(protocol);
            write(&mut replies);
            String::from_utf8(replies.take()).expect("text")
        })
    }

    #[test]
    fn a_long_value_takes_no_more_than_it_needs() {
        let mut replies = Replies::default();
        replies.bulk(vec![b'v'; 1 << 20]);
        assert!(replies.bytes.capacity() < (1 << 20) + 4096);
    }

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

    #[test]
    fn types_that_both_protocols_have() {
        for (write, text) in [
            (
                (|replies| replies.integer(-7)) as fn(&mut Replies),
                ":-7\r\n",
            ),
            (|replies| replies.bulk("a\r\n"), "$3\r\na\r\n\r\n"),
            (|replies| replies.array(2), "*2\r\n"),
            (|replies| replies.ok(), "+OK\r\n"),
        ] {
            assert_eq!(both(write), [text, text]);
        }
    }

    #[test]
    fn types_that_resp2_has_not() {
        for (write, resp2, resp3) in [
            (
                (|replies| replies.null()) as fn(&mut Replies),
                "$-1\r\n",
                "_\r\n",
            ),
            (|replies| replies.null_array(), "*-1\r\n", "_\r\n"),
            (|replies| replies.map(2), "*4\r\n", "%2\r\n"),
            (|replies| replies.set(2), "*2\r\n", "~2\r\n"),
            (|replies| replies.push(2), "*2\r\n", ">2\r\n"),
            (|replies| replies.boolean(true), ":1\r\n", "#t\r\n"),
            (|replies| replies.double("1.5"), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (
                |replies| replies.big_number(b"12345678901234567890"),
                "$20\r\n12345678901234567890\r\n",
                "(12345678901234567890\r\n",
            ),
            (
                |replies| replies.big_number(b"1\r\n+OK"),
                "$6\r\n1  +OK\r\n",
                "(1  +OK\r\n",
            ),
            (
                |replies| replies.verbatim("txt", "a b"),
                "$3\r\na b\r\n",
                "=7\r\ntxt:a b\r\n",
            ),
        ] {
            assert_eq!(both(write), [resp2, resp3]);
        }
    }
}
