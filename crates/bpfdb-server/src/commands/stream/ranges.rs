//! XRANGE and XREVRANGE.

use super::super::arguments::{is, number, syntax_error};
use super::super::prelude::*;
use super::{entries, ids, store};

/// How many entries are wanted; `None`: all.
fn count(mut words: &[Vec<u8>]) -> Result<Option<i64>, Failure> {
    let mut count = None;
    while let [option, rest @ ..] = words {
        words = match rest {
            [text, rest @ ..] if is(option, "count") => {
                count = Some(number(text)?.max(0));
                rest
            }
            _ => return Err(syntax_error()),
        };
    }
    Ok(count)
}

pub(super) fn range(
    context: &mut Context<'_>,
    arguments: &[Vec<u8>],
    is_reversed: bool,
) -> Outcome {
    let (first, last) = if is_reversed { (2, 1) } else { (1, 2) };
    let start = ids::start(&arguments[first])?;
    let end = ids::end(&arguments[last])?;
    let count = count(&arguments[3..])?;
    let replies = &mut *context.replies;
    let begin = replies.len();
    let found = store::look(context.session, &arguments[0], |stream| {
        replies.truncate(begin);
        match count {
            Some(0) => replies.null_array(),
            count => {
                let count = count.unwrap_or(0) as u64;
                entries::reply_range(replies, stream, start..=end, is_reversed, count)?;
            }
        }
        Ok(())
    })?;
    if found.is_none() {
        context.replies.array(0);
    }
    Ok(())
}
