//! JSON lines: a copy that other programs read; docs/formats/dump.md has it line by line.
//!
//! ```text
//! {"bpfdb-dump":2,"time":…,"timestamp":…,"keys":…,"expiring":…}
//! {"key":"a","value":"1"}
//! {"key64":"/w==","value":"x","expires":1764000000000}
//! {"key":"long","bytes":300000}           a long value: parts follow, one a line
//! {"part":"…"}
//! {"key":"h","hash":[["field","value"]]}  also: list, set, zset
//! {"key":"l","type":"list","entries":99000}      a long collection: its entries follow
//! {"list":["a","b"]}
//! {"lengths":[300000]}                    an entry that is too long for a line: parts follow
//! {"part":"…"}
//! {"key":"s","type":"stream","bytes":300}        a stream, as the engine keeps it: parts follow
//! {"part64":"…"}
//! {"check":{"keys":3,"checksum":"0123abcd"}}     now and then: of all bytes before
//! {"end":{"keys":3,"checksum":"4567cdef"}}
//! ```
//!
//! Invariants
//!  1. Bytes that are UTF-8 stand as text, all others in base64: every key and value comes back. The
//!     entries in a line are text if all of them are.
//!  2. No line is longer than `LINE_MAX`, so that no reader needs more memory.
//!  3. A copy without its last line, or with an incomplete one, is cut; nothing follows that line.
//!  4. Lines of checksums and the end are written in one way only. So a bit that flips in one
//!     of them is found as it is in any other line.

mod collection;
pub(crate) mod input;
mod line;
pub(crate) mod output;

use bpfdb::ValueType;
use bpfdb_values::run::Run;

use crate::collection::{Content, content_of, words_of_stream};

/// The entries of a collection as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonEntries {
    /// The field of a line that has them: the name of the type.
    pub name: &'static str,
    /// All strings are in base64, for one of them is no text.
    pub is_base64: bool,
    /// An array.
    pub array: String,
}

/// What a line has of a collection whose run this is, or of a stream whose bytes these are; `None`: it is of
/// no such type, or damaged.
pub fn json_entries(kind: ValueType, value: &[u8]) -> Option<JsonEntries> {
    let kind = match content_of(kind)? {
        Content::String => return None,
        Content::Collection(kind) => kind,
        Content::Stream => {
            let words = words_of_stream(value).ok()?;
            let found = json_entries(ValueType::LIST, &words)?;
            let name = kind.name();
            return Some(JsonEntries { name, ..found });
        }
    };
    let entries: Vec<_> = Run::parse(value)
        .ok()?
        .iter()
        .collect::<Result<_, _>>()
        .ok()?;
    let fields = line::Fields::default().with_entries(kind, &entries)?;
    let text = serde_json::to_string(&fields).ok()?;
    let (field, array) = text
        .strip_prefix("{\"")?
        .strip_suffix('}')?
        .split_once("\":")?;
    Some(JsonEntries {
        name: collection::name_of(kind),
        is_base64: field.ends_with("64"),
        array: array.into(),
    })
}

/// What marks a file of this form.
pub(crate) const MAGIC: &[u8] = b"{\"bpfdb-dump\":";
/// Written. Version 1 has strings only; it is read too.
const VERSION: u32 = 2;
const FIRST_VERSION: u32 = 1;
/// Bytes of a value in one line, at most. An entry of a collection counts [`ENTRY`] bytes more.
const PART: usize = 1 << 18;
/// What brackets, quotes and a score take, in bytes of a value that are all written as escapes.
const ENTRY: usize = 8;
/// Longest line, bytes: what every byte of a part takes as an escape, and what is around it.
const LINE_MAX: usize = 6 * PART + 8192;
/// Bytes after which the checksum is written.
const CHECK: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use bpfdb_values::run::{self, History};

    use super::*;

    #[test]
    fn entries_as_an_array() {
        let run = |key: &[u8]| run::write([(key, &b"v"[..])].into_iter(), History::default());
        let text = json_entries(ValueType::HASH, &run(b"f")).expect("a hash");
        assert_eq!(
            (text.name, text.is_base64, &*text.array),
            ("hash", false, r#"[["f","v"]]"#)
        );
        let bytes = json_entries(ValueType::HASH, &run(b"\xff")).expect("a hash");
        assert_eq!(
            (bytes.is_base64, &*bytes.array),
            (true, r#"[["/w==","dg=="]]"#)
        );
        let words = ["last", "1-0", "deleted", "0-0", "added", "1"];
        let entry = ["entry", "1-0", "fields", "1", "f", "v"];
        let words = words.iter().chain(&entry).map(|word| Ok(word.as_bytes()));
        let bytes = bpfdb_values::stream::words::read(words).expect("a stream");
        let stream = json_entries(ValueType::STREAM, &bytes).expect("a stream");
        assert_eq!((stream.name, stream.is_base64), ("stream", false));
        assert!(
            stream
                .array
                .ends_with(r#""entry","1-0","fields","1","f","v"]"#)
        );
        assert_eq!(json_entries(ValueType::STREAM, b"f"), None);
        assert_eq!(json_entries(ValueType::STRING, &run(b"f")), None);
        assert_eq!(json_entries(ValueType::HASH, b"f"), None);
    }
}
