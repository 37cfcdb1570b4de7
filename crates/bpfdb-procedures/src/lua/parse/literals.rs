//! Numbers and strings as they stand in a text of Lua.

use full_moon::tokenizer::{StringLiteralQuoteType, TokenType};

use super::super::constants::within_limits;

/// A number, if it is whole and within ±2^53.
pub(super) fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    if let Some(digits) = digits {
        return i64::from_str_radix(digits, 16).ok().and_then(within_limits);
    }
    let value: f64 = text.parse().ok()?;
    // What is larger than an i64 becomes the largest, which is beyond the limits too.
    (value.fract() == 0.0)
        .then_some(value as i64)
        .and_then(within_limits)
}

/// The bytes of a string; `None`: Lua does not know the escape.
pub(super) fn text(token: &TokenType) -> Option<Vec<u8>> {
    match token {
        TokenType::StringLiteral {
            literal,
            quote_type: StringLiteralQuoteType::Brackets,
            ..
        } => Some(long(literal.as_bytes())),
        TokenType::StringLiteral { literal, .. } => short(literal.as_bytes()),
        _ => None,
    }
}

/// `[[…]]`: the line's end behind the brackets does not belong to it.
fn long(literal: &[u8]) -> Vec<u8> {
    let mut rest = literal;
    skip_line_end(&mut rest);
    let mut text = Vec::with_capacity(rest.len());
    while let Some(&byte) = rest.first() {
        if skip_line_end(&mut rest) {
            text.push(b'\n');
        } else {
            text.push(byte);
            rest = &rest[1..];
        }
    }
    text
}

/// Lua takes `\r\n` and `\n\r` for one line's end.
fn skip_line_end(rest: &mut &[u8]) -> bool {
    let len = match rest {
        [b'\r', b'\n', ..] | [b'\n', b'\r', ..] => 2,
        [b'\r' | b'\n', ..] => 1,
        _ => return false,
    };
    *rest = &rest[len..];
    true
}

fn short(literal: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(literal.len());
    let mut rest = literal;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        text.push(match byte {
            b'\\' => escape(&mut rest)?,
            byte => byte,
        });
    }
    Some(text)
}

fn escape(rest: &mut &[u8]) -> Option<u8> {
    if skip_line_end(rest) {
        return Some(b'\n');
    }
    let (&byte, behind) = rest.split_first()?;
    if byte.is_ascii_digit() {
        return decimal(rest);
    }
    *rest = behind;
    Some(match byte {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        byte => byte,
    })
}

/// One to three digits.
fn decimal(rest: &mut &[u8]) -> Option<u8> {
    let digits = rest.iter().take(3).take_while(|byte| byte.is_ascii_digit());
    let count = digits.count();
    let (digits, behind) = rest.split_at(count);
    *rest = behind;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers() {
        for (text, value) in [
            ("10", Some(10)),
            ("0x10", Some(16)),
            ("1e3", Some(1000)),
            ("5.0", Some(5)),
            (".5e1", Some(5)),
            ("3.", Some(3)),
            ("9007199254740992", Some(1 << 53)),
            ("9007199254740994", None),
            ("0xFFFFFFFFFFFFFFFFF", None),
            ("1e400", None),
            ("0.5", None),
            ("1e-3", None),
        ] {
            assert_eq!(integer(text), value, "{text}");
        }
    }

    #[test]
    fn bytes_of_strings() {
        assert_eq!(short(br"a\0\255\10b").as_deref(), Some(&b"a\0\xff\nb"[..]));
        assert_eq!(short(br#"\x\"\\\'"#).as_deref(), Some(&br#"x"\'"#[..]));
        assert_eq!(short(b"a\\\nb\\t").as_deref(), Some(&b"a\nb\t"[..]));
        assert_eq!(short(br"\0651").as_deref(), Some(&b"A1"[..]));
        assert_eq!(short(br"\256"), None);
        assert_eq!(long(b"\r\na\r\nb\n\nc\r"), b"a\nb\n\nc\n");
        assert_eq!(long(br"\n"), br"\n");
    }
}
