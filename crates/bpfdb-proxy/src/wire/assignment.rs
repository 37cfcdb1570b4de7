//! `SET parameter TO value`, of a parameter that can be given to another session by the same words.
//!
//! These have no effect but on what their session does later, and none on what its prepared statements mean: so a
//! client that has set one need not keep its server. (`search_path` has such an effect.)

/// By their names in small letters.
pub(crate) const FOLLOWED: [&str; 12] = [
    "bytea_output",
    "check_function_bodies",
    "client_min_messages",
    "default_transaction_deferrable",
    "default_transaction_isolation",
    "extra_float_digits",
    "idle_in_transaction_session_timeout",
    "jit",
    "lock_timeout",
    "statement_timeout",
    "synchronous_commit",
    "xmloption",
];

/// Longest value, bytes.
const VALUE_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) name: &'static str,
    /// As it was written.
    pub(crate) value: String,
}

impl Assignment {
    /// `None`: the text is another one, has more, or says it in a way that is not known here.
    pub(crate) fn of(text: &[u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok().filter(|text| text.is_ascii())?;
        let text = text.trim_matches(|letter: char| letter.is_ascii_whitespace() || letter == ';');
        let rest = after_word(text, "set")?;
        let rest = after_word(rest, "session").unwrap_or(rest);
        let end = rest.find(|letter: char| !is_of_word(letter))?;
        let is_it = |known: &&&str| known.eq_ignore_ascii_case(&rest[..end]);
        let name = FOLLOWED.iter().find(is_it)?;
        let rest = rest[end..].trim_ascii_start();
        let value = match rest.strip_prefix('=') {
            Some(value) => value.trim_ascii_start(),
            None => after_word(rest, "to")?,
        };
        is_plain(value).then(|| Self {
            name,
            value: value.to_owned(),
        })
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// What follows a word at the beginning, without blanks.
fn after_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (first, rest) = text.split_at_checked(word.len())?;
    let is_word = first.eq_ignore_ascii_case(word) && !rest.starts_with(is_of_word);
    is_word.then(|| rest.trim_ascii_start())
}

/// Words, numbers and quoted texts: nothing that ends a statement, is a comment, or means another thing in another
/// session, as a backslash does.
fn is_plain(value: &str) -> bool {
    let (mut quote, mut before) = (None, ' ');
    for letter in value.chars() {
        let is_known = match quote {
            Some(_) => letter != '\\' && !letter.is_ascii_control(),
            None => is_of_word(letter) || " .,+-'\"".contains(letter),
        };
        if !is_known || quote.is_none() && letter == '-' && before == '-' {
            return false;
        }
        quote = match quote {
            Some(end) if end == letter => None,
            None if matches!(letter, '\'' | '"') => Some(letter),
            same => same,
        };
        before = letter;
    }
    quote.is_none() && !value.is_empty() && value.len() <= VALUE_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_assignments_are_read() {
        for (text, name, value) in [
            (
                "SET client_min_messages TO 'warning'",
                "client_min_messages",
                "'warning'",
            ),
            (
                "set session Statement_Timeout=5000 ; ",
                "statement_timeout",
                "5000",
            ),
            ("SET lock_timeout TO'1s'", "lock_timeout", "'1s'"),
            ("set\textra_float_digits = -1;", "extra_float_digits", "-1"),
            ("set jit to default", "jit", "default"),
            ("set xmloption = 'it''s;'", "xmloption", "'it''s;'"),
        ] {
            let value = value.to_owned();
            assert_eq!(
                Assignment::of(text.as_bytes()),
                Some(Assignment { name, value }),
                "{text}"
            );
        }
    }

    #[test]
    fn nothing_else_is_taken_for_one() {
        for text in [
            "set search_path to a",
            "set local jit = on",
            "set jit",
            "set jit =",
            "set jit.a = on",
            "set jit = on; select 1",
            "set jit = 'on'; select 'a'",
            "set jit = on -- a",
            "set jit = /* a */ on",
            "set jit = 'a\\'",
            "set jit = $$on$$",
            "set jit = 'on",
            "set \"jit\" = on",
            "setjit = on",
            "set jit too",
            "set jit = \u{e4}",
            "reset jit",
        ] {
            assert_eq!(Assignment::of(text.as_bytes()), None, "{text}");
        }
        let long = format!("set jit = {}", "a".repeat(VALUE_MAX + 1));
        assert_eq!(Assignment::of(long.as_bytes()), None);
    }
}
