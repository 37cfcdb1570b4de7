//! GETRANGE.

use bpfdb::abi;
use std::ops::Range;

use super::super::arguments::number;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "getrange",
    summary: "Reads part of a value, between two positions",
    since: "2.4.0",
    group: Group::String,
    complexity: "O(length of the part)",
    arity: 4,
    arguments: "key:key, start:integer, end:integer",
    flags: &[Flag::Readonly],
    categories: &[Category::String],
    keys: &[Keys::at(1, &[KeyFlag::ReadOnly, KeyFlag::Access])],
    batching: Batching::Reads,
    run,
    ..Command::BASE
};

pub(super) fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (start, end) = (number(&arguments[1])?, number(&arguments[2])?);
    let part = context
        .session
        .get_range(&arguments[0], |len| range(len, start, end))?
        .unwrap_or_default();
    context.set_needs_daemon(part.len() > abi::BPFDB_REPLY_VALUE_MAX as usize);
    context.replies.bulk(part);
    Ok(())
}

/// Positions from start to end, of `len`; negative ones count from the end.
fn range(len: u64, start: i64, end: i64) -> Range<u64> {
    let len = len as i64;
    let position = |at: i64| if at < 0 { (len + at).max(0) } else { at };
    // Else both might become 0.
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let (start, end) = (position(start), position(end).min(len - 1));
    if start > end {
        return 0..0;
    }
    start as u64..end as u64 + 1
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::range;

    fn as_usize(range: Range<u64>) -> Range<usize> {
        range.start as usize..range.end as usize
    }

    #[test]
    fn positions() {
        let value = b"abcdef";
        for (start, end, expected) in [
            (0, -1, "abcdef"),
            (1, 2, "bc"),
            (-2, -1, "ef"),
            (-100, 1, "ab"),
            (4, 100, "ef"),
            (3, 2, ""),
            (-1, -2, ""),
            (6, 6, ""),
            (0, -100, "a"),
            (i64::MIN, i64::MAX, "abcdef"),
        ] {
            assert_eq!(
                &value[as_usize(range(6, start, end))],
                expected.as_bytes(),
                "{start} {end}"
            );
        }
        assert!(range(0, 0, -1).is_empty());
    }
}
