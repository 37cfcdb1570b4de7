//! An inline command: a line of words, as people type it. Blanks, quotes and escapes are
//! Redis's.

/// Splits an inline command into words; `None` if a quote does not end.
pub(crate) fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;

    loop {
        let blanks = rest.iter().take_while(|&&byte| is_blank(byte)).count();
        rest = &rest[blanks..];
        if rest.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        while let Some((&byte, behind)) = rest.split_first() {
            if ends_word(byte) {
                break;
            }
            // Behind a quote the word ends.
            match byte {
                b'"' => {
                    rest = quoted(behind, &mut word, b'"', escape)?;
                    break;
                }
                b'\'' => {
                    rest = quoted(behind, &mut word, b'\'', only_quotes)?;
                    break;
                }
                _ => word.push(byte),
            }
            rest = behind;
        }
        words.push(word);
    }
}

/// What may stand between words, and must stand behind a quote.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == VERTICAL_TAB
}

/// A word without quotes ends here. As in Redis, not at every blank.
fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

const VERTICAL_TAB: u8 = 0x0b;

type Escape = fn(&[u8]) -> (u8, usize);

/// The rest of a quoted part; what is behind its quote. A quote must be
/// followed by a blank or the end.
fn quoted<'a>(
    mut rest: &'a [u8],
    word: &mut Vec<u8>,
    quote: u8,
    escape: Escape,
) -> Option<&'a [u8]> {
    loop {
        let (&byte, behind) = rest.split_first()?;
        if byte == quote {
            let ends = behind.first().is_none_or(|&byte| is_blank(byte));
            return ends.then_some(behind);
        }
        if byte == b'\\' && !behind.is_empty() {
            let (meant, len) = escape(behind);
            word.push(meant);
            rest = &behind[len..];
        } else {
            word.push(byte);
            rest = behind;
        }
    }
}

/// What stands behind a backslash in double quotes, and its length.
fn escape(text: &[u8]) -> (u8, usize) {
    let hex = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    if let [b'x', high, low, ..] = *text
        && let (Some(high), Some(low)) = (hex(high), hex(low))
    {
        return (high << 4 | low, 3);
    }
    let meant = match text[0] {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    };
    (meant, 1)
}

/// In single quotes a backslash means something before a quote only.
fn only_quotes(text: &[u8]) -> (u8, usize) {
    if text[0] == b'\'' {
        (b'\'', 1)
    } else {
        (b'\\', 0)
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn blanks_are_those_of_redis() {
        let words = |line: &str| split(line.as_bytes()).expect("quotes end");
        assert_eq!(words(" a\tb\rc "), [b"a", b"b", b"c"]);
        // These stand between words, but end none.
        assert_eq!(words("ping \x0b x"), [&b"ping"[..], b"x"]);
        assert_eq!(words("a\x0bb\x0cc"), [b"a\x0bb\x0cc"]);
        assert_eq!(words("'a'\x0b\"b\"\x0c"), [b"a", b"b"]);
    }
}
