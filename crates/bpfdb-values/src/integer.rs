//! Integers as Redis reads them: the shortest form only.

/// A signed 64-bit integer without blanks, plus sign or leading zeros.
pub fn parse(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let shortest = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !shortest {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_whole_range() {
        assert_eq!(parse(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse(b"9223372036854775808"), None);
        assert_eq!(parse(b"0"), Some(0));
    }

    #[test]
    fn only_the_shortest_form() {
        for text in ["", "-", "+1", "01", "-0", " 1", "1 ", "1a", "0x1", "--1"] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
