//! Commands on small hashes, lists, sets and sorted sets.

use std::fmt;

use bpfdb::abi;

use super::operand::Operand;

/// The type of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    Hash = abi::BPFDB_TYPE_HASH,
    List = abi::BPFDB_TYPE_LIST,
    Set = abi::BPFDB_TYPE_SET,
    SortedSet = abi::BPFDB_TYPE_SORTED_SET,
}

/// Where elements of a list are put in, or taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Left,
    Right,
}

/// A command on the collection of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionCommand {
    /// In Redis, in capitals.
    pub name: &'static str,
    pub kind: Kind,
    pub action: Action,
    pub key: Operand,
    /// As many as the action has, in the order of the command.
    pub operands: Vec<Operand>,
}

/// What such a command does, of which operands, and what it replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// HLEN, LLEN, SCARD, ZCARD.
    Count,
    /// HEXISTS, SISMEMBER: 1 or 0.
    Has,
    /// HGET: the value of a field, or false.
    Value,
    /// HSTRLEN
    ValueLength,
    /// ZSCORE: as text, or false.
    Score,
    /// LINDEX: the element at an index, or false.
    At,
    /// HSET: fields with their values; how many are new.
    Put,
    /// HMSET: the same, with the status OK.
    PutAll,
    /// HSETNX of a field and its value: 1 or 0.
    PutNew,
    /// HINCRBY: to a field so much; the sum.
    AddToValue,
    /// SADD: how many are new.
    Add,
    /// ZADD without options: scores with their members; how many are new.
    PutScores,
    /// ZINCRBY: so much to a member; the sum as text.
    AddToScore,
    /// HDEL, SREM, ZREM: how many there were.
    Take,
    /// LPUSH, RPUSH: how many there are then.
    Push(End),
    /// LPOP, RPOP of one: the element, or false.
    Pop(End),
}

/// Name, type, action, and how many operands are behind the key: so many, or any number of groups of so
/// many.
type Row = (&'static str, Kind, Action, Operands);

#[derive(Clone, Copy)]
enum Operands {
    Exactly(usize),
    Groups(usize),
}

#[rustfmt::skip]
const COMMANDS: [Row; 24] = {
    use Action::*;
    use Kind::*;
    use Operands::{Exactly, Groups};
    [
        ("HLEN",      Hash,      Count,               Exactly(0)),
        ("LLEN",      List,      Count,               Exactly(0)),
        ("SCARD",     Set,       Count,               Exactly(0)),
        ("ZCARD",     SortedSet, Count,               Exactly(0)),
        ("HEXISTS",   Hash,      Has,                 Exactly(1)),
        ("SISMEMBER", Set,       Has,                 Exactly(1)),
        ("HGET",      Hash,      Value,               Exactly(1)),
        ("HSTRLEN",   Hash,      ValueLength,         Exactly(1)),
        ("ZSCORE",    SortedSet, Score,               Exactly(1)),
        ("LINDEX",    List,      At,                  Exactly(1)),
        ("HSET",      Hash,      Put,                 Groups(2)),
        ("HMSET",     Hash,      PutAll,              Groups(2)),
        ("HSETNX",    Hash,      PutNew,              Exactly(2)),
        ("HINCRBY",   Hash,      AddToValue,          Exactly(2)),
        ("SADD",      Set,       Add,                 Groups(1)),
        ("ZADD",      SortedSet, PutScores,           Groups(2)),
        ("ZINCRBY",   SortedSet, AddToScore,          Exactly(2)),
        ("HDEL",      Hash,      Take,                Groups(1)),
        ("SREM",      Set,       Take,                Groups(1)),
        ("ZREM",      SortedSet, Take,                Groups(1)),
        ("LPUSH",     List,      Push(End::Left),     Groups(1)),
        ("RPUSH",     List,      Push(End::Right),    Groups(1)),
        ("LPOP",      List,      Pop(End::Left),      Exactly(0)),
        ("RPOP",      List,      Pop(End::Right),     Exactly(0)),
    ]
};

impl Operands {
    fn fit(self, count: usize) -> bool {
        match self {
            Self::Exactly(wanted) => count == wanted,
            Self::Groups(of) => count > 0 && count.is_multiple_of(of),
        }
    }
}

/// Commands that reply with a list, and those of which that has the replies, one for each operand.
const LISTS: [(&str, &str); 3] = [
    ("HMGET", "HGET"),
    ("SMISMEMBER", "SISMEMBER"),
    ("ZMSCORE", "ZSCORE"),
];

impl CollectionCommand {
    /// The command of this name. `None`: it is none of these, or has another form.
    pub fn parse(name: &str, key: &Operand, operands: &[Operand]) -> Option<Self> {
        let (name, kind, action, wanted) = *COMMANDS.iter().find(|row| row.0 == name)?;
        // Options of ZADD, and scores that are no whole numbers, are the interpreter's.
        let is_whole = match action {
            Action::PutScores => operands.iter().step_by(2).all(is_score),
            Action::AddToScore => operands.first().is_some_and(is_score),
            _ => true,
        };
        (wanted.fit(operands.len()) && is_whole).then(|| Self {
            name,
            kind,
            action,
            key: key.clone(),
            operands: operands.to_vec(),
        })
    }

    /// The commands that make the reply of one that replies with a list. `None`: it does not.
    pub fn parse_list(name: &str, key: &Operand, operands: &[Operand]) -> Option<Vec<Self>> {
        let (_, of) = LISTS.iter().find(|(list, _)| *list == name)?;
        let one = |operand| Self::parse(of, key, std::slice::from_ref(operand));
        operands.iter().map(one).collect()
    }

    pub fn writes(&self) -> bool {
        !matches!(
            self.action,
            Action::Count
                | Action::Has
                | Action::Value
                | Action::ValueLength
                | Action::Score
                | Action::At
        )
    }
}

/// Does a command of this name reply with a list?
pub(crate) fn has_list(name: &[u8]) -> bool {
    let mut names = LISTS.iter().map(|(list, _)| list.as_bytes());
    names.any(|list| list.eq_ignore_ascii_case(name))
}

/// May it be a whole number? A literal shows it.
fn is_score(operand: &Operand) -> bool {
    match operand {
        Operand::Text(text) => str::from_utf8(text).is_ok_and(|text| text.parse::<i64>().is_ok()),
        _ => true,
    }
}

impl CollectionCommand {
    pub(super) fn fmt_operands(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut operands = self.operands.iter();
        operands.try_for_each(|operand| write!(f, " {operand}"))
    }
}
