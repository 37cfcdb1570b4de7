//! Replies in RESP2 and RESP3, taken apart as far as tests look into them.

use super::show;

/// One reply. Two are equal if their bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub marker: u8,
    /// What follows the marker; of a bulk string: its bytes.
    pub text: Vec<u8>,
    /// Of an array, a set, a push; of a map: names and values in turn.
    pub items: Vec<Reply>,
    pub is_nil: bool,
}

impl Reply {
    /// The reply at the beginning of `bytes` and its length, if it is whole.
    pub fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let line = bytes.windows(2).position(|two| two == b"\r\n")? + 2;
        let text = bytes[1..line - 2].to_vec();
        let reply = Self {
            marker: bytes[0],
            text,
            items: Vec::new(),
            is_nil: bytes[0] == b'_',
        };
        match reply.marker {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Some((reply, line)),
            b'$' | b'=' | b'!' => reply.with_bytes(bytes, line),
            b'*' | b'~' | b'>' | b'%' => reply.with_items(bytes, line),
            other => panic!(
                "a reply that begins with {:?}: {}",
                other as char,
                show(bytes)
            ),
        }
    }

    fn with_bytes(mut self, bytes: &[u8], start: usize) -> Option<(Self, usize)> {
        let Some(len) = self.len() else {
            self.is_nil = true;
            return Some((self, start));
        };
        let end = start + len;
        self.text = bytes.get(start..end)?.to_vec();
        assert_eq!(bytes.get(end..end + 2)?, b"\r\n", "behind {}", show(bytes));
        Some((self, end + 2))
    }

    fn with_items(mut self, bytes: &[u8], start: usize) -> Option<(Self, usize)> {
        let Some(len) = self.len() else {
            self.is_nil = true;
            return Some((self, start));
        };
        let mut end = start;
        for _ in 0..if self.marker == b'%' { 2 * len } else { len } {
            let (item, len) = Self::parse(&bytes[end..])?;
            self.items.push(item);
            end += len;
        }
        Some((self, end))
    }

    /// The length that the header gives, unless it is that of nil.
    fn len(&self) -> Option<usize> {
        let number: i64 = self.number().unwrap_or_else(|| {
            panic!("a length, not {}", show(&self.text));
        });
        usize::try_from(number).ok()
    }

    pub fn number(&self) -> Option<i64> {
        std::str::from_utf8(&self.text).ok()?.parse().ok()
    }

    pub fn is_error(&self) -> bool {
        self.marker == b'-' || self.marker == b'!'
    }

    pub fn is(&self, text: &str) -> bool {
        self.marker == b'+' && self.text == text.as_bytes()
    }

    /// The value behind this name, in a map or in an array of pairs.
    pub fn field(&self, name: &str) -> Option<&Self> {
        self.items
            .chunks_exact(2)
            .find(|pair| pair[0].text == name.as_bytes())
            .map(|pair| &pair[1])
    }
}

/// Where the reply at the beginning of some bytes ends, found while they come: what was looked at
/// is not looked at again, and nothing is copied.
#[derive(Debug)]
pub(super) struct Frame {
    /// Behind the last element that is whole.
    at: usize,
    /// Elements that are still to come: one at first, and those of each array in its place.
    wanted: usize,
}

impl Default for Frame {
    fn default() -> Self {
        Self { at: 0, wanted: 1 }
    }
}

impl Frame {
    /// The length of the reply, once all of it is there. `bytes` are those of the call before, and
    /// more.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        while self.wanted > 0 {
            let rest = &bytes[self.at..];
            let line = rest.windows(2).position(|two| two == b"\r\n")? + 2;
            let len = || -> Option<usize> {
                let digits = str::from_utf8(&rest[1..line - 2]).expect("a length");
                let len: i64 = digits.parse().expect("a length");
                // That of nil is negative.
                usize::try_from(len).ok()
            };
            let (size, more) = match rest[0] {
                b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => (line, 0),
                b'$' | b'=' | b'!' => (len().map_or(line, |len| line + len + 2), 0),
                b'*' | b'~' | b'>' => (line, len().unwrap_or(0)),
                b'%' => (line, 2 * len().unwrap_or(0)),
                other => panic!(
                    "a reply that begins with {:?}: {}",
                    other as char,
                    show(rest)
                ),
            };
            if rest.len() < size {
                return None;
            }
            assert_eq!(rest[size - 2..size], *b"\r\n", "behind {}", show(rest));
            self.at += size;
            self.wanted = self.wanted - 1 + more;
        }
        Some(self.at)
    }
}

impl std::fmt::Display for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let marker = self.marker as char;
        if self.items.is_empty() {
            return write!(f, "{marker}{}", show(&self.text));
        }
        write!(f, "{marker}[")?;
        const SHOWN: usize = 12;
        for (i, item) in self.items.iter().take(SHOWN).enumerate() {
            write!(f, "{}{item}", if i > 0 { ", " } else { "" })?;
        }
        let more = self.items.len().saturating_sub(SHOWN);
        if more > 0 {
            write!(f, ", and {more} more")?;
        }
        write!(f, "]")
    }
}
