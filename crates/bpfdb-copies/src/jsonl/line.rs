//! The lines of a copy.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// The first line.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    #[serde(rename = "bpfdb-dump")]
    pub(super) version: u32,
    pub(super) time: u64,
    pub(super) timestamp: u64,
    pub(super) keys: u64,
    pub(super) expiring: u64,
}

/// An entry, or a part of a long value, to be written.
#[derive(Debug, Default, Serialize)]
pub(super) struct Written<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part64: Option<String>,
}

/// As text if it is one, else in base64.
fn text_or_base64(bytes: &[u8]) -> (Option<&str>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

impl<'a> Written<'a> {
    pub(super) fn entry(name: &'a [u8], value: &'a [u8], expires: Option<u64>) -> Self {
        let (key, key64) = text_or_base64(name);
        let (value, value64) = text_or_base64(value);
        Self {
            key,
            key64,
            value,
            value64,
            expires,
            ..Self::default()
        }
    }

    /// An entry whose value follows in parts.
    pub(super) fn long(name: &'a [u8], bytes: u64, expires: Option<u64>) -> Self {
        let (key, key64) = text_or_base64(name);
        Self {
            key,
            key64,
            bytes: Some(bytes),
            expires,
            ..Self::default()
        }
    }

    pub(super) fn part(bytes: &'a [u8]) -> Self {
        let (part, part64) = text_or_base64(bytes);
        Self {
            part,
            part64,
            ..Self::default()
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Read {
    key: Option<String>,
    key64: Option<String>,
    value: Option<String>,
    value64: Option<String>,
    bytes: Option<u64>,
    expires: Option<u64>,
    part: Option<String>,
    part64: Option<String>,
}

/// A line that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Entry {
        name: Vec<u8>,
        value: Vec<u8>,
        expires: Option<u64>,
    },
    Long {
        name: Vec<u8>,
        bytes: u64,
        expires: Option<u64>,
    },
    Part(Vec<u8>),
}

/// The bytes, if exactly one of both is there.
fn bytes_of(text: Option<String>, base64: Option<String>) -> Option<Vec<u8>> {
    match (text, base64) {
        (Some(text), None) => Some(text.into_bytes()),
        (None, Some(base64)) => STANDARD.decode(base64).ok(),
        _ => None,
    }
}

impl Line {
    /// `None`: no line of a copy.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let read: Read = serde_json::from_slice(line).ok()?;
        let is_part = read.part.is_some() || read.part64.is_some();
        let is_entry = read.key.is_some() || read.key64.is_some();
        let has_value = read.value.is_some() || read.value64.is_some();
        match (is_part, is_entry, has_value, read.bytes) {
            (true, false, false, None) if read.expires.is_none() => {
                bytes_of(read.part, read.part64).map(Self::Part)
            }
            (false, true, true, None) => Some(Self::Entry {
                name: bytes_of(read.key, read.key64)?,
                value: bytes_of(read.value, read.value64)?,
                expires: read.expires,
            }),
            (false, true, false, Some(bytes)) => Some(Self::Long {
                name: bytes_of(read.key, read.key64)?,
                bytes,
                expires: read.expires,
            }),
            _ => None,
        }
    }
}

/// A line with the checksum of all bytes before it: at the end, or on the way.
pub(super) fn check(word: &str, keys: u64, sum: u32) -> String {
    format!("{{\"{word}\":{{\"keys\":{keys},\"checksum\":\"{sum:08x}\"}}}}\n")
}

/// In [`check`]: on the way.
pub(super) const CHECK: &str = "check";
/// In [`check`]: at the end.
pub(super) const END: &str = "end";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_cannot_be() {
        for line in [
            "",
            "{}",
            r#"{"key":"a"}"#,
            r#"{"value":"a"}"#,
            r#"{"key":"a","key64":"YQ==","value":"b"}"#,
            r#"{"key":"a","value":"b","value64":"YQ=="}"#,
            r#"{"key":"a","value":"b","bytes":1}"#,
            r#"{"key":"a","value":"b","part":"c"}"#,
            r#"{"part":"c","expires":1}"#,
            r#"{"part":"c","bytes":1}"#,
            r#"{"key64":"?","value":"b"}"#,
            r#"{"key":"a","value":"b","more":1}"#,
            r#"{"key":"a","value":"b"} {}"#,
            r#"{"key":"a","value":"b","expires":-1}"#,
        ] {
            assert_eq!(Line::parse(line.as_bytes()), None, "{line}");
        }
    }
}
