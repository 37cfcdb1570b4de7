//! Arguments of commands as numbers, and Redis's words for those that mean nothing.

use super::Failure;
use crate::values::integer;

pub(super) fn syntax_error() -> Failure {
    "ERR syntax error".into()
}

pub(super) fn number(text: &[u8]) -> Result<i64, Failure> {
    integer::parse(text).ok_or_else(|| "ERR value is not an integer or out of range".into())
}

/// A number that is not below `least`: else, and if it is none, this is the error.
pub(super) fn at_least(text: &[u8], least: i64, error: &str) -> Result<i64, Failure> {
    integer::parse(text)
        .filter(|&value| value >= least)
        .ok_or_else(|| error.into())
}

/// How many elements are wanted.
pub(super) fn count(text: &[u8]) -> Result<usize, Failure> {
    let count = at_least(text, 0, "ERR value is out of range, must be positive")?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Options are words in letters of any size.
pub(super) fn is(word: &[u8], option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}

pub(super) fn on_or_off(word: &[u8]) -> Result<bool, Failure> {
    if is(word, "on") {
        Ok(true)
    } else if is(word, "off") {
        Ok(false)
    } else {
        Err(syntax_error())
    }
}
