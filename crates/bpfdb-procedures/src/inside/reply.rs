//! Replies of calls, as the kernel wrote them (`struct bpfdb_call_reply`).

use bpfdb::abi;

use super::error::Failure;

const HEADER: usize = size_of::<abi::bpfdb_call_reply>();
const VALUE: usize = size_of::<abi::bpfdb_call_value>();

/// A reply, with the meaning that it has for a client of Redis: `false` is nil, `true` is 1, a
/// list ends before its first nil.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Nil,
    Integer(i64),
    Text(Vec<u8>),
    /// `redis.status_reply`, and what SET replies.
    Status(Vec<u8>),
    /// `redis.error_reply`. What the call did before it is committed.
    Error(Vec<u8>),
    /// Up to 64.
    List(Vec<Reply>),
}

/// The same, within the [`Calls`](super::Calls) that it is the reply of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyRef<'a> {
    Nil,
    Integer(i64),
    Text(&'a [u8]),
    Status(&'a [u8]),
    Error(&'a [u8]),
    List(Elements<'a>),
}

impl ReplyRef<'_> {
    pub fn to_owned(self) -> Reply {
        match self {
            Self::Nil => Reply::Nil,
            Self::Integer(number) => Reply::Integer(number),
            Self::Text(text) => Reply::Text(text.to_vec()),
            Self::Status(text) => Reply::Status(text.to_vec()),
            Self::Error(text) => Reply::Error(text.to_vec()),
            Self::List(elements) => Reply::List(elements.map(ReplyRef::to_owned).collect()),
        }
    }
}

/// The elements of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements<'a> {
    /// Of those that are left, as `struct bpfdb_call_value`.
    values: &'a [u8],
    /// Theirs.
    texts: &'a [u8],
}

impl<'a> Elements<'a> {
    /// The next value; `None` behind the last one. `Err`: it is damaged.
    fn value(&mut self) -> Option<Result<ReplyRef<'a>, Failure>> {
        let (value, rest) = self.values.split_at_checked(VALUE)?;
        self.values = rest;
        let (tag, len) = (word(value, 0), word(value, 4) as usize);
        let number = i64::from_ne_bytes(value[8..].try_into().ok()?);
        let Some((text, rest)) = self.texts.split_at_checked(len.next_multiple_of(8)) else {
            return Some(Err(Failure::CORRUPT));
        };
        self.texts = rest;
        let text = &text[..len];
        Some(match tag {
            abi::BPFDB_TAG_NIL | abi::BPFDB_TAG_FALSE => Ok(ReplyRef::Nil),
            abi::BPFDB_TAG_TRUE => Ok(ReplyRef::Integer(1)),
            abi::BPFDB_TAG_INTEGER => Ok(ReplyRef::Integer(number)),
            abi::BPFDB_TAG_TEXT => Ok(ReplyRef::Text(text)),
            abi::BPFDB_TAG_STATUS => Ok(ReplyRef::Status(text)),
            abi::BPFDB_TAG_ERROR => Ok(ReplyRef::Error(text)),
            _ => Err(Failure::CORRUPT),
        })
    }

    /// Is the next value nil, and not `false`? A list ends there.
    fn ends(&self) -> bool {
        self.values.len() < VALUE || word(self.values, 0) == abi::BPFDB_TAG_NIL
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = ReplyRef<'a>;

    fn next(&mut self) -> Option<ReplyRef<'a>> {
        if self.ends() {
            return None;
        }
        self.value()?.ok()
    }
}

/// The replies of calls, in the order of the calls.
#[derive(Clone, Debug)]
pub struct Replies<'a> {
    bytes: &'a [u8],
    left: usize,
    conflicts: u64,
}

impl<'a> Replies<'a> {
    pub(super) fn new(bytes: &'a [u8], count: usize) -> Self {
        Self {
            bytes,
            left: count,
            conflicts: 0,
        }
    }

    /// Of the calls whose replies were taken so far: attempts that met a conflict, and were
    /// repeated in the kernel.
    pub fn conflicts(&self) -> u64 {
        self.conflicts
    }

    fn parse(&mut self) -> Result<ReplyRef<'a>, Failure> {
        let (header, rest) = split(self.bytes, HEADER)?;
        let [outcome, conflicts, values, is_array] = [0, 4, 8, 12].map(|at| word(header, at));
        self.conflicts += u64::from(conflicts);
        let (values, rest) = split(rest, values as usize * VALUE)?;
        let all = Elements {
            values,
            texts: rest,
        };
        let mut end = all;
        let first = end.value().unwrap_or(Ok(ReplyRef::Nil));
        while end.value().is_some() {}
        self.bytes = end.texts;
        match (outcome, is_array) {
            (0, 0) => first,
            (0, _) => Ok(ReplyRef::List(Elements {
                texts: &rest[..rest.len() - end.texts.len()],
                ..all
            })),
            _ => Err(Failure::of(outcome)),
        }
    }
}

impl<'a> Iterator for Replies<'a> {
    type Item = Result<ReplyRef<'a>, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(self.parse())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Replies<'_> {}

/// The reply of a call that the kernel did not finish.
pub(super) fn failed(outcome: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..4].copy_from_slice(&outcome.to_ne_bytes());
    bytes
}

fn split(bytes: &[u8], at: usize) -> Result<(&[u8], &[u8]), Failure> {
    bytes.split_at_checked(at).ok_or(Failure::CORRUPT)
}

/// The 32-bit word at this place.
fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(word)
}
