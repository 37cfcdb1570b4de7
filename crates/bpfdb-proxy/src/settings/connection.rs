//! Connection strings, as PgBouncer writes them: `key=value key='another value'`.

/// Why a text is no connection string.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("{0} has no value")]
    Value(String),
    #[error("a value has no closing quote")]
    Quote,
}

/// The pairs of a connection string, in its order. Blanks may surround `=`; a value in single quotes may
/// have blanks, and two quotes for one.
pub(crate) fn pairs(text: &str) -> Result<Vec<(String, String)>, Malformed> {
    let (mut pairs, mut rest) = (Vec::new(), text.trim_start());
    while !rest.is_empty() {
        let is_key = |letter: char| letter.is_alphanumeric() || letter == '_';
        let end = rest.find(|letter| !is_key(letter)).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        let after = after.trim_start().strip_prefix('=');
        let word = || rest.split_whitespace().next().unwrap_or(rest).to_owned();
        let after = after
            .filter(|_| !key.is_empty())
            .ok_or_else(|| Malformed::Value(word()))?;
        let (value, after) = value(after.trim_start())?;
        pairs.push((key.to_owned(), value));
        rest = after.trim_start();
    }
    Ok(pairs)
}

fn value(text: &str) -> Result<(String, &str), Malformed> {
    let Some(quoted) = text.strip_prefix('\'') else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return Ok((value.to_owned(), rest));
    };
    super::until_quote(quoted, '\'').ok_or(Malformed::Quote)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        pairs(text).expect("a connection string")
    }

    #[test]
    fn values_may_be_quoted() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let wanted = [
            pair("host", "a"),
            pair("password", "it's me"),
            pair("user", ""),
            pair("port", "1"),
        ];
        let text = " host=a password = 'it''s me' user='' port=1 ";
        assert_eq!(read(text), wanted);
        assert_eq!(read("  "), []);
    }

    #[test]
    fn what_is_no_pair_is_refused() {
        assert_eq!(pairs("host"), Err(Malformed::Value("host".into())));
        assert_eq!(pairs("=a"), Err(Malformed::Value("=a".into())));
        assert_eq!(pairs("password='a"), Err(Malformed::Quote));
    }
}
