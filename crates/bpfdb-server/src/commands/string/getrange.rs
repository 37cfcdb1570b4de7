//! GETRANGE.

use bpfdb::abi;

use super::super::arguments::number;
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "getrange",
    summary: "Reads part of a value, between two positions",
    since: "2.4.0",
    group: Group::String,
    complexity: "O(length of the value)",
    arity: 4,
    arguments: "key:key, start:integer, end:integer",
    flags: &[Flag::Readonly],
    categories: &[Category::String],
    keys: &[Keys::at(1, &["RO", "access"])],
    path: Path::Kernel,
    run,
    ..Command::BASE
};

pub(super) fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (start, end) = (number(&arguments[1])?, number(&arguments[2])?);
    let value = context.session.get(&arguments[0])?.unwrap_or_default();
    let part = range(&value, start, end);
    context.connection.slow = part.len() > abi::BPFDB_REPLY_VALUE_MAX as usize;
    context.replies.bulk(part);
    Ok(())
}

/// Bytes from start to end; negative positions count from the end.
fn range(value: &[u8], start: i64, end: i64) -> &[u8] {
    let len = value.len() as i64;
    let position = |at: i64| if at < 0 { (len + at).max(0) } else { at };
    // Else both might become 0.
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    let (start, end) = (position(start), position(end).min(len - 1));
    if start > end {
        return &[];
    }
    &value[start as usize..=end as usize]
}

#[cfg(test)]
mod tests {
    use super::range;

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
                range(value, start, end),
                expected.as_bytes(),
                "{start} {end}"
            );
        }
        assert_eq!(range(b"", 0, -1), b"");
    }
}
