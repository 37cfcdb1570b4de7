//! SCAN.

use super::super::arguments::{is, number, syntax_error};
use super::super::prelude::*;
use crate::protocol::reply::Replies;
use crate::values::glob;

/// Keys at a time, whatever COUNT says: others wait meanwhile.
const COUNT_MAX: i64 = 4096;
/// The same with TYPE, for which each value is read.
const COUNT_MAX_TYPED: usize = 256;

pub(crate) static COMMAND: Command = Command {
    name: "scan",
    summary: "Lists keys in steps; a cursor leads from one to the next",
    since: "2.8.0",
    group: Group::Generic,
    complexity: "O(count) for a step, O(keys in the database) for all",
    arity: -2,
    arguments: "cursor:integer, [MATCH pattern:pattern], [COUNT count:integer], [TYPE type@6.0.0]",
    flags: &[Flag::Readonly],
    categories: &[Category::Keyspace],
    tips: &["nondeterministic_output", "request_policy:special"],
    differences: "Cursors are not those of Redis. Refused in a transaction that writes (BEGIN, a MULTI with a command that writes), which could not keep others from adding keys meanwhile; in one that only reads it sees the snapshot.",
    run,
    ..Command::BASE
};

struct Options<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    /// Name of the type that is wanted; `None`: any.
    value_type: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(words: &'a [Vec<u8>]) -> Result<Self, Failure> {
        let mut options = Self {
            count: 10,
            pattern: None,
            value_type: None,
        };
        for pair in words.chunks(2) {
            let [option, value] = pair else {
                return Err(syntax_error());
            };
            if is(option, "count") {
                let count = number(value)?;
                if count < 1 {
                    return Err(syntax_error());
                }
                options.count = count.min(COUNT_MAX) as usize;
            } else if is(option, "match") {
                options.pattern = Some(value);
            } else if is(option, "type") {
                options.value_type = Some(value);
            } else {
                return Err(syntax_error());
            }
        }
        if options.value_type.is_some() {
            options.count = options.count.min(COUNT_MAX_TYPED);
        }
        Ok(options)
    }

    fn wants(&self, key: &[u8]) -> bool {
        !bpfdb::is_reserved(key)
            && self
                .pattern
                .is_none_or(|pattern| glob::matches(pattern, key))
    }
}

/// What strtoul() reads of a whole word: it may be empty, or negative.
fn cursor(text: &[u8]) -> Result<u64, Failure> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if text.is_empty() {
        return Ok(0);
    }
    let value: Option<u64> = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok());
    value
        .map(|value| {
            if negative {
                value.wrapping_neg()
            } else {
                value
            }
        })
        .ok_or_else(|| "ERR invalid cursor".into())
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let cursor = cursor(&arguments[0])?;
    let options = Options::parse(&arguments[1..])?;
    let mut keys = Replies::new(context.replies.protocol());
    let mut count = 0;
    let mut of_any_type: Vec<Vec<u8>> = Vec::new();
    let next = (context.session).scan_each(cursor, options.count, |key| {
        match (options.wants(key), options.value_type) {
            (false, _) => {}
            (true, Some(_)) => of_any_type.push(key.to_vec()),
            (true, None) => {
                keys.bulk(key);
                count += 1;
            }
        }
    })?;
    // A call for each key, and only now: a scan and a read use the same buffer.
    if let Some(name) = options.value_type {
        for key in of_any_type {
            let head = context.session.head(&key)?;
            if head.is_some_and(|head| is(name, head.value_type.name())) {
                keys.bulk(&key);
                count += 1;
            }
        }
    }
    context.replies.array(2);
    context.replies.bulk(next.to_string());
    context.replies.array(count);
    context.replies.absorb(&mut keys);
    Ok(())
}
