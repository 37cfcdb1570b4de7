//! The elements of a history in a collection: how one is written, and how all are read.
//!
//! A collection that is a list to the history shows the order in which its elements came. Only Redis's
//! lists have one; the other types write the number of the element beside it, which a script counts.

use bpfdb_model::history::{Element, Workload, encode};
use bpfdb_tests::server::{Reply, request};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// A list: elements are added at its end.
    List,
    /// A hash: under 1, 2, 3 … the elements; under `n` their number.
    Numbered,
    /// A sorted set: the score of each element is the number of those before it.
    Ranked,
    /// A set of `number:element`.
    Members,
    /// A list as a register: what was added last, at its start.
    Newest,
    /// A field of a hash as a register.
    Field,
    /// The score of a sorted set's element as a register.
    Score,
}

const NUMBERED: &str = "local n = redis.call('hincrby', KEYS[1], 'n', 1) \
    return redis.call('hset', KEYS[1], n, ARGV[1])";
const RANKED: &str = "local n = redis.call('zcard', KEYS[1]) \
    return redis.call('zadd', KEYS[1], n, ARGV[1])";
const MEMBERS: &str = "local n = redis.call('scard', KEYS[1]) \
    return redis.call('sadd', KEYS[1], n .. ':' .. ARGV[1])";

impl Kept {
    pub(super) fn workload(self) -> Workload {
        match self {
            Self::List | Self::Numbered | Self::Ranked | Self::Members => Workload::Lists,
            Self::Newest | Self::Field | Self::Score => Workload::Registers,
        }
    }

    /// One command.
    pub(super) fn write(self, key: &[u8], element: Element) -> Vec<u8> {
        let text = element.to_string();
        let text = text.as_bytes();
        let script = |script: &str| request(&[b"EVAL", script.as_bytes(), b"1", key, text]);
        match self {
            Self::List => request(&[b"RPUSH", key, text]),
            Self::Numbered => script(NUMBERED),
            Self::Ranked => script(RANKED),
            Self::Members => script(MEMBERS),
            Self::Newest => request(&[b"LPUSH", key, text]),
            Self::Field => request(&[b"HSET", key, b"field", text]),
            Self::Score => request(&[b"ZADD", key, text, b"element"]),
        }
    }

    /// One command.
    pub(super) fn read(self, key: &[u8]) -> Vec<u8> {
        match self {
            Self::List => request(&[b"LRANGE", key, b"0", b"-1"]),
            Self::Numbered => request(&[b"HGETALL", key]),
            Self::Ranked => request(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]),
            Self::Members => request(&[b"SMEMBERS", key]),
            Self::Newest => request(&[b"LINDEX", key, b"0"]),
            Self::Field => request(&[b"HGET", key, b"field"]),
            Self::Score => request(&[b"ZSCORE", key, b"element"]),
        }
    }

    /// The elements in the reply to [`read`](Self::read), as the checker takes them. `None`: absent.
    ///
    /// # Errors
    /// A collection that no writes of a history have made: what is wrong with it.
    pub(super) fn elements(self, reply: &Reply) -> Result<Option<Vec<u8>>, String> {
        let elements = match self {
            Self::List => reply.items.iter().map(number).collect(),
            Self::Numbered => numbered(&reply.items),
            Self::Ranked => ranked(&reply.items),
            Self::Members => members(&reply.items),
            Self::Newest | Self::Field | Self::Score if reply.is_nil => Some(Vec::new()),
            Self::Newest | Self::Field | Self::Score => number(reply).map(|one| vec![one]),
        };
        let elements = elements.ok_or_else(|| format!("{self:?}: broken: {reply}"))?;
        Ok((!elements.is_empty()).then(|| encode(&elements)))
    }
}

fn number(reply: &Reply) -> Option<Element> {
    reply.number()?.try_into().ok()
}

/// Values by their numbers, which are those from `first` on.
fn in_order(mut pairs: Vec<(Element, Element)>, first: Element) -> Option<Vec<Element>> {
    pairs.sort_unstable();
    let whole = (first..)
        .zip(&pairs)
        .all(|(wanted, &(number, _))| wanted == number);
    whole.then(|| pairs.into_iter().map(|(_, element)| element).collect())
}

fn numbered(items: &[Reply]) -> Option<Vec<Element>> {
    let (mut count, mut pairs) = (0, Vec::new());
    for pair in items.chunks_exact(2) {
        match pair[0].text.as_slice() {
            b"n" => count = number(&pair[1])? as usize,
            _ => pairs.push((number(&pair[0])?, number(&pair[1])?)),
        }
    }
    if count != pairs.len() {
        return None;
    }
    in_order(pairs, 1)
}

fn ranked(items: &[Reply]) -> Option<Vec<Element>> {
    let pair = |pair: &[Reply]| Some((number(&pair[1])?, number(&pair[0])?));
    let pairs: Option<Vec<_>> = items.chunks_exact(2).map(pair).collect();
    let pairs = pairs?;
    // They also come in their order.
    pairs.is_sorted().then(|| in_order(pairs, 0)).flatten()
}

fn members(items: &[Reply]) -> Option<Vec<Element>> {
    let pair = |member: &Reply| {
        let text = std::str::from_utf8(&member.text).ok()?;
        let (number, element) = text.split_once(':')?;
        Some((number.parse().ok()?, element.parse().ok()?))
    };
    let pairs: Option<Vec<_>> = items.iter().map(pair).collect();
    in_order(pairs?, 0)
}
