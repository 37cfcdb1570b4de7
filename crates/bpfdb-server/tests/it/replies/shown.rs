//! Replies as text: what the scripts expect, and what a difference shows.
//!
//! ```text
//! +OK   -ERR no such key   :5   ,1.5   #t   (123      the marker, and the text to the end
//! "text"  ="txt:text"  !"text"                        bulk, verbatim and error strings
//! nil  *nil  null                                     $-1, *-1, and _ of RESP3
//! [:1, "a", [+OK]]  ~["a"]  >["a"]                    arrays, sets, pushes
//! {"a": :1, "b": nil}                                 maps
//! ```
//!
//! A text that stands in an array ends at a comma or a bracket, unless it is in quotes: `+"a, b"`.
//! Quotes understand `\xHH`, `\r`, `\n`, `\t` and a backslash before anything else, and may be
//! repeated: `"ab"*100`. A reply that varies is `<any>`; in a text `<any>` stands for any bytes,
//! and `:<5..10>` for an integer of these.

use std::ops::RangeInclusive;

use bpfdb_tests::server::Reply;
use bpfdb_tests::words::unescape;

const ANY: &str = "<any>";

/// What a reply must be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    Any,
    Range(RangeInclusive<i64>),
    /// Between two parts there may be anything.
    Text {
        marker: u8,
        parts: Vec<Vec<u8>>,
    },
    Nil(u8),
    /// Of a map: names and values in turn.
    Items {
        marker: u8,
        items: Vec<Shown>,
    },
}

impl Shown {
    /// The whole text is one reply.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rest = Rest(text.trim());
        let shown = rest.reply(false)?;
        match rest.0 {
            "" => Ok(shown),
            more => Err(format!("behind the reply: {more}")),
        }
    }

    pub fn is_error(&self) -> bool {
        matches!(
            self,
            Self::Text {
                marker: b'-' | b'!',
                ..
            }
        )
    }

    pub fn matches(&self, reply: &Reply) -> bool {
        match self {
            Self::Any => true,
            Self::Range(range) => {
                reply.marker == b':' && reply.number().is_some_and(|n| range.contains(&n))
            }
            Self::Text { marker, parts } => {
                reply.marker == *marker && !reply.is_nil && has_parts(&reply.text, parts)
            }
            Self::Nil(marker) => reply.marker == *marker && reply.is_nil,
            Self::Items { marker, items } => {
                reply.marker == *marker
                    && !reply.is_nil
                    && reply.items.len() == items.len()
                    && items.iter().zip(&reply.items).all(|(a, b)| a.matches(b))
            }
        }
    }
}

/// The first part is at the beginning, the last one at the end, the others between them in order.
fn has_parts(text: &[u8], parts: &[Vec<u8>]) -> bool {
    let [first, middle @ .., last] = parts else {
        return parts.first().is_some_and(|part| part == text);
    };
    let rest = text
        .strip_prefix(&first[..])
        .and_then(|rest| rest.strip_suffix(&last[..]));
    let Some(mut rest) = rest else {
        return false;
    };
    middle.iter().all(|part| {
        let place = (0..=rest.len()).find(|&at| rest[at..].starts_with(part));
        rest = place.map_or(rest, |at| &rest[at + part.len()..]);
        place.is_some()
    })
}

/// What is not parsed yet.
pub struct Rest<'a>(pub &'a str);

impl Rest<'_> {
    fn blanks(&mut self) {
        self.0 = self.0.trim_start();
    }

    fn takes(&mut self, text: &str) -> bool {
        let rest = self.0.strip_prefix(text);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// `inside`: of an array or a map.
    fn reply(&mut self, inside: bool) -> Result<Shown, String> {
        self.blanks();
        for (text, shown) in [
            (ANY, Shown::Any),
            ("*nil", Shown::Nil(b'*')),
            ("nil", Shown::Nil(b'$')),
            ("null", Shown::Nil(b'_')),
        ] {
            if self.takes(text) {
                return Ok(shown);
            }
        }
        for (text, marker, end) in [("[", b'*', "]"), ("~[", b'~', "]"), (">[", b'>', "]")] {
            if self.takes(text) {
                return self.items(marker, end, &[","]);
            }
        }
        if self.takes("{") {
            return self.items(b'%', "}", &[":", ","]);
        }
        if self.takes(":<") {
            return self.range();
        }
        let marker = match self.0.as_bytes().first() {
            Some(b'"') => b'$',
            Some(&marker @ (b'+' | b'-' | b':' | b',' | b'#' | b'(' | b'=' | b'!')) => {
                self.0 = &self.0[1..];
                marker
            }
            _ => return Err(format!("no reply: {}", self.0)),
        };
        let parts = match self.quoted()? {
            Some(parts) => parts,
            None if b"=!".contains(&marker) => return Err(format!("no quotes: {}", self.0)),
            None => self.bare(inside),
        };
        Ok(Shown::Text { marker, parts })
    }

    /// `between`: what separates two items, in turn.
    fn items(&mut self, marker: u8, end: &str, between: &[&str]) -> Result<Shown, String> {
        let mut items = Vec::new();
        loop {
            self.blanks();
            if self.takes(end) {
                break;
            }
            if !items.is_empty() {
                let wanted = between[(items.len() - 1) % between.len()];
                if !self.takes(wanted) {
                    return Err(format!("no {wanted} before {}", self.0));
                }
            }
            items.push(self.reply(true)?);
        }
        if items.len() % between.len() != 0 {
            return Err("a name without a value".to_owned());
        }
        Ok(Shown::Items { marker, items })
    }

    fn range(&mut self) -> Result<Shown, String> {
        let range = self.0.split_once('>').and_then(|(range, rest)| {
            let (low, high) = range.split_once("..")?;
            Some((low.parse().ok()?..=high.parse().ok()?, rest))
        });
        let (range, rest) = range.ok_or_else(|| format!("no range: {}", self.0))?;
        self.0 = rest;
        Ok(Shown::Range(range))
    }

    fn bare(&mut self, inside: bool) -> Vec<Vec<u8>> {
        let end = match inside {
            true => self.0.find([',', ']', '}', ':']).unwrap_or(self.0.len()),
            false => self.0.len(),
        };
        let (text, rest) = self.0.split_at(end);
        self.0 = rest;
        text.trim_end()
            .split(ANY)
            .map(|part| part.as_bytes().to_vec())
            .collect()
    }

    /// A text in double quotes, if there is one here, and how often it is to be there; its parts.
    pub fn quoted(&mut self) -> Result<Option<Vec<Vec<u8>>>, String> {
        let Some(inner) = self.0.strip_prefix('"') else {
            return Ok(None);
        };
        let mut is_escaped = false;
        let end = inner.bytes().position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        });
        let end = end.ok_or_else(|| format!("no end of {}", self.0))?;
        self.0 = &inner[end + 1..];
        let parts: Result<Vec<_>, _> = inner[..end].split(ANY).map(unescape).collect();
        let mut parts = parts?;
        if self.takes("*") {
            let digits = self.0.bytes().take_while(u8::is_ascii_digit).count();
            let (times, rest) = self.0.split_at(digits);
            self.0 = rest;
            let times = times.parse().map_err(|_| format!("no number: {rest}"))?;
            let [part] = &mut parts[..] else {
                return Err(format!("{ANY} is not repeated"));
            };
            *part = part.repeat(times);
        }
        Ok(Some(parts))
    }
}

/// The reply as a script expects it.
pub fn show(reply: &Reply) -> String {
    shown(reply, false)
}

fn shown(reply: &Reply, inside: bool) -> String {
    let items = |items: &[Reply]| {
        let all: Vec<String> = items.iter().map(|item| shown(item, true)).collect();
        all.join(", ")
    };
    match (reply.marker, reply.is_nil) {
        (b'$', true) => "nil".to_owned(),
        (b'*', true) => "*nil".to_owned(),
        (b'_', _) => "null".to_owned(),
        (b'*', _) => format!("[{}]", items(&reply.items)),
        (marker @ (b'~' | b'>'), _) => {
            format!("{}[{}]", marker as char, items(&reply.items))
        }
        (b'%', _) => {
            let pairs = reply.items.chunks(2).map(|pair| {
                let [name, value] = [&pair[0], &pair[1]].map(|item| shown(item, true));
                format!("{name}: {value}")
            });
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        (b'$', _) => quote(&reply.text),
        (marker, _) => {
            let bare = str::from_utf8(&reply.text).ok().filter(|text| {
                let plain = |c: char| !(c.is_control() || inside && ",]}:".contains(c));
                text.chars().all(plain)
                    && text.trim() == *text
                    && !text.starts_with('"')
                    && !b"=!".contains(&marker)
            });
            let text = bare.map_or_else(|| quote(&reply.text), str::to_owned);
            format!("{}{text}", marker as char)
        }
    }
}

fn quote(bytes: &[u8]) -> String {
    // What escape_ascii() does, but for the apostrophe.
    format!(
        "\"{}\"",
        bytes.escape_ascii().to_string().replace("\\'", "'")
    )
}
