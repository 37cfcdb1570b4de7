//! `numkeys key... end [COUNT count]`: elements of the first of some keys that has any (LMPOP, ZMPOP).

use super::Failure;
use super::arguments::{at_least, is, syntax_error};

/// Keys, the end from which elements are taken, and how many of them.
#[derive(Debug)]
pub(super) struct PopArguments<'a, E> {
    pub(super) keys: &'a [Vec<u8>],
    pub(super) end: E,
    pub(super) count: usize,
}

impl<'a, E> PopArguments<'a, E> {
    /// `end` knows the words for ends.
    pub(super) fn parse(
        words: &'a [Vec<u8>],
        end: impl Fn(&[u8]) -> Option<E>,
    ) -> Result<Self, Failure> {
        let (number, behind) = words.split_first().ok_or_else(syntax_error)?;
        let keys = at_least(number, 1, "ERR numkeys should be greater than 0")?;
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        let (keys, behind) = behind.split_at_checked(keys).ok_or_else(syntax_error)?;
        let (word, options) = behind.split_first().ok_or_else(syntax_error)?;
        let end = end(word).ok_or_else(syntax_error)?;
        let count = match options {
            [] => 1,
            [option, count, rest @ ..] if is(option, "count") => {
                let count = at_least(count, 1, "ERR count should be greater than 0")?;
                if !rest.is_empty() {
                    return Err(syntax_error());
                }
                usize::try_from(count).unwrap_or(usize::MAX)
            }
            _ => return Err(syntax_error()),
        };
        Ok(Self { keys, end, count })
    }
}
