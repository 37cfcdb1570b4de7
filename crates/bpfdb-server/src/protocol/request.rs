//! Bytes to requests: RESP2 arrays of bulk strings, and inline commands.
//!
//! Limits and error texts are Redis's. Memory is bounded: a request keeps
//! [`MESSAGE_MAX`] bytes; it is marked as cut then, and refused. What all requests of
//! all connections may take together is `maxmemory-clients`.

use std::ops::Range;

use super::inline::split;
use crate::settings::limits::{MESSAGE_MAX, WORD_OVERHEAD};
use crate::values::integer;

/// Longest line: of an inline command, of a length.
const LINE_MAX: usize = 64 * 1024;
/// Of the short words of one request: as many keys and values as a transaction may hold locks,
/// of 40 bytes each. They take several times their bytes.
const SHORT_KEPT_MAX: usize = 192 << 20;
/// Bytes of a short word, at most.
const SHORT: usize = 64 << 10;

/// Words of most requests: memory for them is taken at once.
const WORDS_EXPECTED: usize = 8;

const _: () =
    assert!(SHORT_KEPT_MAX > bpfdb::abi::BPFDB_LOCKS_MAX as usize * 2 * (40 + WORD_OVERHEAD));

/// How much a client may say, and what the refusal is called.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Words of one request.
    pub words: i64,
    /// Bytes of one bulk string.
    pub bulk: i64,
    unknown_client: bool,
}

impl Limits {
    /// Before a client has authenticated; as in Redis.
    pub(crate) const UNKNOWN_CLIENT: Self = Self {
        words: 10,
        bulk: 16 * 1024,
        unknown_client: true,
    };

    pub(crate) fn of_bulk(bulk: u64) -> Self {
        Self {
            bulk: i64::try_from(bulk).unwrap_or(i64::MAX),
            ..Self::default()
        }
    }

    fn too_many_words(self) -> Step {
        broken(if self.unknown_client {
            "unauthenticated multibulk length"
        } else {
            "invalid multibulk length"
        })
    }

    fn too_long(self) -> Step {
        broken(if self.unknown_client {
            "unauthenticated bulk length"
        } else {
            "invalid bulk length"
        })
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            words: i32::MAX.into(),
            bulk: 512 << 20,
            unknown_client: false,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Name and arguments, at least one.
    pub words: Vec<Vec<u8>>,
    /// A word was not kept in full.
    pub cut: bool,
}

impl Request {
    /// Bytes that it takes.
    pub(crate) fn memory(&self) -> usize {
        let words = self.words.iter();
        words
            .map(|word| word.capacity() + size_of::<Vec<u8>>())
            .sum()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Request(Request),
    /// Everything fed so far is used up, up to the middle of a request.
    More,
    /// Malformed beyond repair: the text, to be sent before closing.
    Broken(String),
}

impl Step {
    /// Bytes that it takes.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Request(request) => request.memory(),
            Self::Broken(text) => text.capacity(),
            Self::More => 0,
        }
    }
}

/// An incremental parser of one connection's bytes.
#[derive(Debug, Default)]
pub struct Parser {
    bytes: Vec<u8>,
    /// Bytes before this are used up.
    start: usize,
    array: Option<Array>,
}

/// An array whose elements are still coming.
#[derive(Debug)]
struct Array {
    left: usize,
    /// What is to be kept, at most [`MESSAGE_MAX`].
    kept: usize,
    /// Of that, what short words take, at most [`SHORT_KEPT_MAX`].
    short: usize,
    /// What is kept already.
    held: usize,
    request: Request,
    bulk: Option<Bulk>,
}

/// A bulk string whose bytes are still coming.
#[derive(Debug)]
struct Bulk {
    left: usize,
    keep: usize,
    /// Behind the bytes: CR LF, or what stands there.
    trailer: usize,
}

type ParseResult<T> = Result<T, Step>;

impl Parser {
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Is the parser between two requests, with nothing left to parse?
    pub fn is_idle(&self) -> bool {
        self.array.is_none() && self.rest().is_empty()
    }

    /// Is more than a slot's worth of an argument still to come?
    pub(crate) fn is_long(&self) -> bool {
        let bulk = self.array.as_ref().and_then(|array| array.bulk.as_ref());
        bulk.is_some_and(|bulk| bulk.left > bpfdb::abi::BPFDB_VALUE_MAX as usize)
    }

    /// Frees what an empty buffer has beyond `most`, and what a request that is
    /// still coming does not need.
    pub(crate) fn trim(&mut self, most: usize) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        if self.bytes.capacity() > most {
            self.bytes.shrink_to(2 * self.bytes.len());
        }
    }

    /// Bytes that are kept.
    pub(crate) fn memory(&self) -> usize {
        let words = self.array.as_ref().map_or(0, |array| array.held);
        self.bytes.capacity() + words
    }

    pub fn next_step(&mut self, limits: Limits) -> Step {
        let step = self.advance(limits);
        // A long line or argument must not keep its memory for ever.
        if self.start > LINE_MAX {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        match step {
            Ok(request) => Step::Request(request),
            Err(step) => step,
        }
    }

    fn advance(&mut self, limits: Limits) -> ParseResult<Request> {
        loop {
            if self.array.is_some() {
                return self.elements(limits);
            }
            match self.rest().first() {
                None => return Err(Step::More),
                Some(b'*') => self.array_begin(limits)?,
                Some(_) => {
                    let words = self.inline()?;
                    if !words.is_empty() {
                        return Ok(Request { words, cut: false });
                    }
                }
            }
        }
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Takes a line that ends with CR and one more byte: where it is, without
    /// them.
    fn line(&mut self, too_big: &str) -> ParseResult<Range<usize>> {
        let rest = self.rest();
        let Some(end) = end_of_line(rest, b'\r') else {
            return Err(self.more_or_too_big(too_big));
        };
        if end + 2 > rest.len() {
            return Err(Step::More);
        }
        let line = self.start..self.start + end;
        self.start += end + 2;
        Ok(line)
    }

    fn more_or_too_big(&self, what: &str) -> Step {
        if self.rest().len() > LINE_MAX {
            broken(&format!("too big {what}"))
        } else {
            Step::More
        }
    }

    fn array_begin(&mut self, limits: Limits) -> ParseResult<()> {
        let line = self.line("mbulk count string")?;
        let count = integer::parse(&self.bytes[line][1..])
            .filter(|&count| count <= i64::from(i32::MAX))
            .ok_or_else(|| broken("invalid multibulk length"))?;
        if count > limits.words {
            return Err(limits.too_many_words());
        }

        if count > 0 {
            let words = Vec::with_capacity((count as usize).min(WORDS_EXPECTED));
            self.array = Some(Array {
                left: count as usize,
                kept: 0,
                short: 0,
                held: 0,
                request: Request { words, cut: false },
                bulk: None,
            });
        }
        Ok(())
    }

    fn elements(&mut self, limits: Limits) -> ParseResult<Request> {
        loop {
            let array = self.array.as_mut().expect("in an array");
            if let Some(bulk) = &mut array.bulk {
                let rest = &self.bytes[self.start..];
                let word = array.request.words.last_mut().expect("of this bulk");
                let before = word.len();
                self.start += bulk.take(rest, word);
                array.held += word.len() - before;
                if bulk.left + bulk.trailer > 0 {
                    return Err(Step::More);
                }
                array.bulk = None;
                array.left -= 1;
            }
            if array.left == 0 {
                return Ok(self.array.take().expect("in an array").request);
            }
            self.bulk_begin(limits)?;
        }
    }

    fn bulk_begin(&mut self, limits: Limits) -> ParseResult<()> {
        // Redis looks at the marker when the line is complete.
        let line = self.line("bulk count string")?;
        let len = match self.bytes[line].split_first() {
            Some((b'$', digits)) => {
                let len = integer::parse(digits)
                    .filter(|&len| len >= 0)
                    .ok_or_else(|| broken("invalid bulk length"))?;
                if len > limits.bulk {
                    return Err(limits.too_long());
                }
                len
            }
            other => {
                let got = other.map_or('\r', |(&byte, _)| char::from(byte));
                return Err(broken(&format!("expected '$', got '{got}'")));
            }
        };
        let array = self.array.as_mut().expect("in an array");
        let is_short = len as usize <= SHORT;
        let mut room = MESSAGE_MAX.saturating_sub(array.kept + WORD_OVERHEAD);
        if is_short {
            room = room.min(SHORT_KEPT_MAX.saturating_sub(array.short + WORD_OVERHEAD));
        }
        let keep = (len as usize).min(room);

        array.request.cut |= keep < len as usize || room == 0;
        // Without room for another word the last one takes its place.
        if room > 0 || array.request.words.is_empty() {
            array.kept += keep + WORD_OVERHEAD;
            if is_short {
                array.short += keep + WORD_OVERHEAD;
            }
            array.held += WORD_OVERHEAD;
            // What is here already is taken in one piece.
            let here = self.bytes.len() - self.start;
            array.request.words.push(Vec::with_capacity(keep.min(here)));
        }
        array.bulk = Some(Bulk {
            left: len as usize,
            keep,
            trailer: 2,
        });
        Ok(())
    }

    fn inline(&mut self) -> ParseResult<Vec<Vec<u8>>> {
        let rest = self.rest();
        let Some(end) = end_of_line(rest, b'\n') else {
            return Err(self.more_or_too_big("inline request"));
        };
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        let words = split(line).ok_or_else(|| broken("unbalanced quotes in request"))?;

        self.start += end + 1;
        Ok(words)
    }
}

impl Bulk {
    /// Takes what there is of it; how many bytes that were.
    fn take(&mut self, bytes: &[u8], word: &mut Vec<u8>) -> usize {
        let here = bytes.len().min(self.left);
        let kept = here.min(self.keep);
        word.extend_from_slice(&bytes[..kept]);
        self.keep -= kept;
        self.left -= here;

        let trailer = (bytes.len() - here).min(self.trailer);
        self.trailer -= trailer;
        here + trailer
    }
}

fn broken(text: &str) -> Step {
    Step::Broken(format!("ERR Protocol error: {text}"))
}

/// Where a line ends. As in Redis, no end is found behind a NUL: such a line grows until it
/// is too long.
fn end_of_line(bytes: &[u8], end: u8) -> Option<usize> {
    let found = bytes.iter().position(|&byte| byte == end || byte == 0)?;
    (bytes[found] == end).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], chunk: usize) -> Vec<Step> {
        let mut parser = Parser::default();
        let mut steps = Vec::new();
        for part in bytes.chunks(chunk) {
            parser.feed(part);
            loop {
                match parser.next_step(Limits::default()) {
                    Step::More => break,
                    broken @ Step::Broken(_) => {
                        steps.push(broken);
                        return steps;
                    }
                    request => steps.push(request),
                }
            }
        }
        steps
    }

    fn words(text: &[&str]) -> Step {
        Step::Request(Request {
            words: text.iter().map(|word| word.as_bytes().to_vec()).collect(),
            cut: false,
        })
    }

    fn one_broken(bytes: &[u8]) -> String {
        match all(bytes, usize::MAX).as_slice() {
            [Step::Broken(text)] => text.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arrays_come_in_any_pieces() {
        let bytes = b"*1\r\n$4\r\nPING\r\n*0\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\n*-1\r\nGET a\r\n";
        let expected = [
            words(&["PING"]),
            words(&["SET", "", "\r\n"]),
            words(&["GET", "a"]),
        ];
        for chunk in 1..bytes.len() {
            assert_eq!(all(bytes, chunk), expected, "in pieces of {chunk}");
        }
    }

    #[test]
    fn a_stranger_may_say_little() {
        let one = |bytes: &[u8]| {
            let mut parser = Parser::default();
            parser.feed(bytes);
            parser.next_step(Limits::UNKNOWN_CLIENT)
        };
        for (bytes, text) in [
            (&b"*11\r\n"[..], "unauthenticated multibulk length"),
            (b"*1\r\n$16385\r\n", "unauthenticated bulk length"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
        ] {
            assert_eq!(one(bytes), broken(text));
        }
        assert_eq!(one(b"*10\r\n$16384\r\n"), Step::More);
    }

    /// Words of no bytes take memory too.
    #[test]
    fn many_empty_words_are_bounded() {
        let count = SHORT_KEPT_MAX / WORD_OVERHEAD + 1000;
        let mut parser = Parser::default();
        parser.feed(format!("*{count}\r\n").as_bytes());
        let words = b"$0\r\n\r\n".repeat(1000);
        let mut left = count;
        let request = loop {
            let some = left.min(1000);
            parser.feed(&words[..some * 6]);
            left -= some;
            match parser.next_step(Limits::default()) {
                Step::More => assert!(parser.memory() <= SHORT_KEPT_MAX + 10_000),
                Step::Request(request) => break request,
                broken => panic!("{broken:?}"),
            }
        };
        assert!(request.cut);
        assert!(request.words.len() < count);
        assert!(parser.is_idle());
    }

    #[test]
    fn idle_only_between_requests() {
        let mut parser = Parser::default();
        assert!(parser.is_idle());
        parser.feed(b"*1\r\n");
        assert_eq!(parser.next_step(Limits::default()), Step::More);
        assert!(!parser.is_idle());
        parser.feed(b"$1\r\na\r");
        assert_eq!(parser.next_step(Limits::default()), Step::More);
        assert!(!parser.is_idle());
        parser.feed(b"\n");
        assert_eq!(parser.next_step(Limits::default()), words(&["a"]));
        assert!(parser.is_idle());
    }

    #[test]
    fn long_requests_are_cut_and_skipped() {
        const PART: usize = 1 << 20;
        let len = MESSAGE_MAX / 2;
        let part = vec![b'x'; PART];
        let mut parser = Parser::default();
        parser.feed(b"*3\r\n$4\r\nMSET\r\n");
        for _ in 0..2 {
            parser.feed(format!("${len}\r\n").as_bytes());
            for _ in 0..len / PART {
                assert_eq!(parser.next_step(Limits::default()), Step::More);
                assert!(parser.memory() <= MESSAGE_MAX + 4 * PART);
                parser.feed(&part);
            }
            parser.feed(b"\r\n");
        }
        let Step::Request(first) = parser.next_step(Limits::default()) else {
            panic!("it has ended");
        };
        assert!(first.cut);
        assert_eq!(first.words[1].len(), len);
        assert!(first.words[2].len() < len);
        parser.feed(b"PING\r\n");
        assert_eq!(parser.next_step(Limits::default()), words(&["PING"]));
    }

    #[test]
    fn what_redis_calls_a_protocol_error() {
        let cases: [(&[u8], &str); 9] = [
            (b"*a\r\n", "invalid multibulk length"),
            (b"*2147483648\r\n", "invalid multibulk length"),
            (b"*01\r\n", "invalid multibulk length"),
            (b"*1\r\nPING\r\n", "expected '$', got 'P'"),
            (b"*1\r\n\r\n", "expected '$', got '\r'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$536870913\r\n", "invalid bulk length"),
            (b"GET \"a\r\n", "unbalanced quotes in request"),
            (b"GET \"a\"b\r\n", "unbalanced quotes in request"),
        ];
        for (bytes, text) in cases {
            assert_eq!(one_broken(bytes), format!("ERR Protocol error: {text}"));
        }
    }

    #[test]
    fn lines_are_bounded() {
        for (first, text) in [
            ("x", "too big inline request"),
            ("*", "too big mbulk count string"),
            ("*1\r\n$", "too big bulk count string"),
        ] {
            let mut bytes = first.as_bytes().to_vec();
            bytes.resize(bytes.len() + LINE_MAX + 1, b'1');
            assert_eq!(one_broken(&bytes), format!("ERR Protocol error: {text}"));
        }
    }

    /// Redis looks for the end of a line as C does for that of a string.
    #[test]
    fn a_line_with_a_nul_does_not_end() {
        for bytes in [
            &b"PING\0\r\n"[..],
            b"\0\r\nPING\r\n",
            b"*1\0\r\n",
            b"*1\r\n$4\0\r\n",
        ] {
            let mut bytes = bytes.to_vec();
            assert_eq!(all(&bytes, usize::MAX), []);
            bytes.resize(bytes.len() + LINE_MAX + 1, b'1');
            assert!(one_broken(&bytes).starts_with("ERR Protocol error: too big "));
        }
        assert_eq!(all(b"PING\r\n\0", usize::MAX), [words(&["PING"])]);
    }

    #[test]
    fn inline_words_may_be_quoted() {
        let cases: [(&str, &[&str]); 5] = [
            ("  get   a  ", &["get", "a"]),
            (r#"set k "a b\n\x41\q""#, &["set", "k", "a b\nAq"]),
            (r"set k 'it\'s \n'", &["set", "k", "it's \\n"]),
            (r#"set k """#, &["set", "k", ""]),
            ("\r", &[]),
        ];
        for (line, expected) in cases {
            let expected: Vec<Vec<u8>> = expected.iter().map(|w| w.as_bytes().to_vec()).collect();
            assert_eq!(split(line.as_bytes()), Some(expected), "{line}");
        }
    }
}
