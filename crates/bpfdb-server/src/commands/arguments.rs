//! What arguments mean, and Redis's words for those that mean nothing.

use super::Failure;
use crate::values::integer;

pub(super) fn syntax_error() -> Failure {
    "ERR syntax error".into()
}

pub(super) fn number(text: &[u8]) -> Result<i64, Failure> {
    integer::parse(text).ok_or_else(|| "ERR value is not an integer or out of range".into())
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
