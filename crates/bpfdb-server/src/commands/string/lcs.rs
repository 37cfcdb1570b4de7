//! LCS: the longest common subsequence of two values.

use std::rc::Rc;

use bpfdb::{Session, Status};

use super::super::arguments::{is, number, syntax_error};
use super::super::atomic::{Kind, atomically};
use super::super::prelude::*;
use super::super::update::VALUE_MAX;
use crate::protocol::reply::Replies;

pub(crate) static COMMAND: Command = Command {
    name: "lcs",
    summary: "Compares two values: their longest common subsequence",
    since: "7.0.0",
    group: Group::String,
    complexity: "O(product of both lengths)",
    arity: -3,
    arguments: "key1:key, key2:key, [LEN], [IDX], [MINMATCHLEN len:integer], [WITHMATCHLEN]",
    flags: &[Flag::Readonly],
    categories: &[Category::String],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access]).last(1)],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

/// Cells of the table that one step fills.
const CELLS: usize = 1 << 17;

#[derive(Debug, Default)]
struct Options {
    ranges: bool,
    length: bool,
    with_lengths: bool,
    shortest: i64,
}

impl Options {
    fn parse(mut words: &[Vec<u8>]) -> Result<Self, Failure> {
        let mut options = Self::default();
        while let Some((word, behind)) = words.split_first() {
            words = behind;
            if is(word, "idx") {
                options.ranges = true;
            } else if is(word, "len") {
                options.length = true;
            } else if is(word, "withmatchlen") {
                options.with_lengths = true;
            } else if is(word, "minmatchlen")
                && let Some((shortest, behind)) = words.split_first()
            {
                options.shortest = number(shortest)?;
                words = behind;
            } else {
                return Err(syntax_error());
            }
        }
        if options.ranges && options.length {
            return Err("ERR If you want both the length and indexes, please just use IDX.".into());
        }
        Ok(options)
    }
}

/// A string, empty if the key is absent. LCS has words of its own for another type.
fn string(session: &mut Session, key: &[u8]) -> Result<Vec<u8>, Failure> {
    match session.get(key) {
        Err(Status::WrongType) => Err("ERR The specified keys must contain string values".into()),
        value => Ok(value?.unwrap_or_default()),
    }
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    // As in Redis, before the options are looked at.
    let (a, b) = atomically(context.session, Kind::Read, |session| {
        Ok((
            string(session, &arguments[0])?,
            string(session, &arguments[1])?,
        ))
    })?;
    let options = Options::parse(&arguments[2..])?;
    context.go_on_with(Comparison {
        options,
        turn: None,
        table: Table::new(a, b)?,
    });
    Ok(())
}

#[derive(Debug)]
struct Comparison {
    options: Options,
    /// There is memory for one table at a time.
    turn: Option<Rc<()>>,
    table: Table,
}

impl Job for Comparison {
    fn step(&mut self, context: &mut Context<'_>, _: &[Vec<u8>]) -> Result<Progress, Failure> {
        if self.turn.is_none() {
            self.turn = context.instance.turn();
        }
        let waits = self.turn.is_none() && !context.at_once;
        if waits || !self.table.fill(CELLS) {
            return Ok(Progress::More);
        }
        let (options, table) = (&self.options, &self.table);
        let replies = &mut *context.replies;
        if options.ranges {
            reply_ranges(replies, table, options);
        } else if options.length {
            replies.integer(table.length() as i64);
        } else {
            replies.bulk(table.subsequence());
        }
        Ok(Progress::Done)
    }

    fn is_short(&self) -> bool {
        self.table.size <= CELLS / 100
    }

    fn waits(&self) -> bool {
        self.turn.is_none()
    }

    fn memory(&self) -> usize {
        self.table.a.len() + self.table.b.len()
    }
}

fn reply_ranges(replies: &mut Replies, table: &Table, options: &Options) {
    let mut ranges = table.ranges();
    ranges.retain(|range| range.len as i64 >= options.shortest);
    replies.map(2);
    replies.bulk("matches");
    replies.array(ranges.len());
    for range in ranges {
        replies.array(2 + usize::from(options.with_lengths));
        for start in [range.a, range.b] {
            replies.array(2);
            replies.integer(start as i64);
            replies.integer((start + range.len - 1) as i64);
        }
        if options.with_lengths {
            replies.integer(range.len as i64);
        }
    }
    replies.bulk("len");
    replies.integer(table.length() as i64);
}

/// At (i, j): length of the longest common subsequence of the first i bytes of
/// a and the first j bytes of b. It is never longer than what the bound on the
/// table's size leaves for the shorter of the two, so that 16 bits hold it.
#[derive(Debug)]
struct Table {
    a: Vec<u8>,
    b: Vec<u8>,
    size: usize,
    /// Empty until it is filled.
    lengths: Vec<u16>,
    /// Bytes of a that are done.
    rows: usize,
}

/// Bytes that are equal, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    a: usize,
    b: usize,
    len: usize,
}

impl Table {
    fn new(a: Vec<u8>, b: Vec<u8>) -> Result<Self, Failure> {
        let size = (a.len() + 1) * (b.len() + 1);
        // Redis's bound, for its cells of four bytes.
        if size as u64 * 4 > VALUE_MAX {
            return Err(
                "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"
                    .into(),
            );
        }
        Ok(Self {
            a,
            b,
            size,
            lengths: Vec::new(),
            rows: 0,
        })
    }

    /// Fills about so many cells: are all filled?
    fn fill(&mut self, cells: usize) -> bool {
        if self.lengths.is_empty() {
            self.lengths = vec![0; self.size];
        }
        let width = self.b.len() + 1;
        let end = self.a.len().min(self.rows + 1 + cells / width);
        for i in self.rows..end {
            let (before, row) = self.lengths[i * width..].split_at_mut(width);
            for (j, b) in self.b.iter().enumerate() {
                row[j + 1] = if self.a[i] == *b {
                    before[j] + 1
                } else {
                    before[j + 1].max(row[j])
                };
            }
        }
        self.rows = end;
        end == self.a.len()
    }

    fn at(&self, i: usize, j: usize) -> u16 {
        self.lengths[i * (self.b.len() + 1) + j]
    }

    fn length(&self) -> usize {
        self.at(self.a.len(), self.b.len()).into()
    }

    /// Positions of the equal bytes, from the last to the first.
    fn matches(&self) -> impl Iterator<Item = (usize, usize)> {
        let (mut i, mut j) = (self.a.len(), self.b.len());
        std::iter::from_fn(move || {
            while i > 0 && j > 0 {
                if self.a[i - 1] == self.b[j - 1] {
                    i -= 1;
                    j -= 1;
                    return Some((i, j));
                }
                if self.at(i - 1, j) > self.at(i, j - 1) {
                    i -= 1;
                } else {
                    j -= 1;
                }
            }
            None
        })
    }

    fn subsequence(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.matches().map(|(i, _)| self.a[i]).collect();
        bytes.reverse();
        bytes
    }

    /// From the last to the first.
    fn ranges(&self) -> Vec<Range> {
        let mut ranges: Vec<Range> = Vec::new();
        for (a, b) in self.matches() {
            match ranges.last_mut() {
                Some(range) if range.a == a + 1 && range.b == b + 1 => {
                    *range = Range {
                        a,
                        b,
                        len: range.len + 1,
                    };
                }
                _ => ranges.push(Range { a, b, len: 1 }),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(a: &[u8], b: &[u8]) -> Table {
        let mut table = Table::new(a.to_vec(), b.to_vec()).expect("small");
        while !table.fill(10) {}
        table
    }

    #[test]
    fn the_example_of_the_documentation() {
        let table = table(b"ohmytext", b"mynewtext");
        assert_eq!(table.length(), 6);
        assert_eq!(table.subsequence(), b"mytext");
        let ranges = [Range { a: 4, b: 5, len: 4 }, Range { a: 2, b: 0, len: 2 }];
        assert_eq!(table.ranges(), ranges);
    }

    #[test]
    fn nothing_in_common() {
        assert_eq!(table(b"", b"abc").length(), 0);
        assert!(table(b"xyz", b"abc").ranges().is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let long = vec![b'a'; 65536];
        assert!(Table::new(long.clone(), long).is_err());
        // The longest result that the bound allows.
        let side = vec![b'a'; 11_584];
        assert_eq!(table(&side, &side).length(), 11_584);
    }
}
