//! A text becomes values of Lua.

use std::ffi::CStr;
use std::ptr;

use mlua::{Lua, Value};

use super::{Config, NESTING_MAX};
use crate::work::{PIECE_BYTES, Work};

pub(super) struct Reader<'a> {
    pub(super) lua: &'a Lua,
    pub(super) config: Config,
    pub(super) work: Work,
    /// With a zero behind its end, for C.
    pub(super) text: &'a CStr,
    /// Behind the token that was read last.
    pub(super) at: usize,
    /// Where that begins, or what is wrong with it.
    pub(super) token_at: usize,
}

/// What a text is made of, as lua-cjson parts and names it.
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Comma,
    Colon,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    End,
    /// None, and why.
    Bad(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayEnd => "T_ARR_END",
            Self::Comma => "T_COMMA",
            Self::Colon => "T_COLON",
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::String(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::End => "T_END",
            Self::Bad(why) => why,
        }
    }
}

impl Reader<'_> {
    pub(super) fn whole(&mut self) -> mlua::Result<Value> {
        let first = self.next()?;
        let value = self.value(first, 0)?;
        match self.next()? {
            Token::End => Ok(value),
            other => Err(self.unexpected("the end", &other)),
        }
    }

    fn unexpected(&self, expected: &str, found: &Token) -> mlua::Error {
        mlua::Error::runtime(format!(
            "Expected {expected} but found {} at character {}",
            found.name(),
            self.token_at + 1
        ))
    }

    // ---- Values ------------------------------------------------------------------------

    /// The value that this token begins.
    fn value(&mut self, token: Token, depth: usize) -> mlua::Result<Value> {
        self.work.piece(0)?;
        match token {
            Token::ObjectBegin => self.object(depth + 1),
            Token::ArrayBegin => self.array(depth + 1),
            Token::String(text) => self.lua.create_string(text).map(Value::String),
            Token::Number(value) => Ok(Value::Number(value)),
            Token::Boolean(value) => Ok(Value::Boolean(value)),
            Token::Null => Ok(Value::NULL),
            other => Err(self.unexpected("value", &other)),
        }
    }

    fn check_depth(&self, depth: usize) -> mlua::Result<()> {
        if depth <= self.config.decode_depth.min(NESTING_MAX) {
            return Ok(());
        }
        Err(mlua::Error::runtime(format!(
            "Found too many nested data structures ({depth})"
        )))
    }

    fn object(&mut self, depth: usize) -> mlua::Result<Value> {
        self.check_depth(depth)?;
        let table = self.lua.create_table()?;
        let mut token = self.next()?;
        if matches!(token, Token::ObjectEnd) {
            return Ok(Value::Table(table));
        }
        loop {
            let Token::String(key) = token else {
                return Err(self.unexpected("object key string", &token));
            };
            match self.next()? {
                Token::Colon => {}
                other => return Err(self.unexpected("colon", &other)),
            }
            let first = self.next()?;
            let value = self.value(first, depth)?;
            table.raw_set(self.lua.create_string(key)?, value)?;
            match self.next()? {
                Token::ObjectEnd => return Ok(Value::Table(table)),
                Token::Comma => token = self.next()?,
                other => return Err(self.unexpected("comma or object end", &other)),
            }
        }
    }

    fn array(&mut self, depth: usize) -> mlua::Result<Value> {
        self.check_depth(depth)?;
        let table = self.lua.create_table()?;
        let mut token = self.next()?;
        if matches!(token, Token::ArrayEnd) {
            return Ok(Value::Table(table));
        }
        for index in 1_i64.. {
            let value = self.value(token, depth)?;
            table.raw_set(index, value)?;
            token = match self.next()? {
                Token::ArrayEnd => break,
                Token::Comma => self.next()?,
                other => return Err(self.unexpected("comma or array end", &other)),
            };
        }
        Ok(Value::Table(table))
    }

    // ---- Tokens ------------------------------------------------------------------------

    fn rest(&self) -> &[u8] {
        &self.text.to_bytes()[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    fn next(&mut self) -> mlua::Result<Token> {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
            if self.at.is_multiple_of(PIECE_BYTES) {
                self.work.piece(0)?;
            }
        }
        self.token_at = self.at;
        let Some(byte) = self.peek() else {
            return Ok(Token::End);
        };
        let single = match byte {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => return Ok(self.number()),
            _ => return Ok(self.word()),
        };
        self.at += 1;
        Ok(single)
    }

    fn word(&mut self) -> Token {
        let words = [
            (&b"true"[..], Token::Boolean(true)),
            (b"false", Token::Boolean(false)),
            (b"null", Token::Null),
        ];
        for (word, token) in words {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        match self.config.decode_invalid && is_no_json(self.rest()) {
            true => self.number(),
            false => Token::Bad("invalid token"),
        }
    }

    fn string(&mut self) -> mlua::Result<Token> {
        self.at += 1;
        let mut bytes = Vec::new();
        let mut looked = self.at;
        loop {
            if self.at - looked >= PIECE_BYTES {
                self.work.piece(0)?;
                looked = self.at;
            }
            let problem = match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Token::String(bytes));
                }
                Some(b'\\') => self.escape(&mut bytes),
                Some(byte) => {
                    self.at += 1;
                    bytes.push(byte);
                    Ok(())
                }
                None => Err("unexpected end of string"),
            };
            if let Err(why) = problem {
                self.token_at = self.at;
                return Ok(Token::Bad(why));
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), &'static str> {
        let rest = self.rest();
        let byte = match rest.get(1) {
            Some(b'u') => {
                let found = unicode(rest).ok_or("invalid unicode escape code")?;
                let (character, len) = found;
                let mut utf8 = [0; 4];
                bytes.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
                self.at += len;
                return Ok(());
            }
            Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            _ => return Err("invalid escape code"),
        };
        bytes.push(byte);
        self.at += 2;
        Ok(())
    }

    /// What strtod of C reads, which takes more than JSON has.
    fn number(&mut self) -> Token {
        let bad = Token::Bad("invalid number");
        if !self.config.decode_invalid && is_no_json(self.rest()) {
            return bad;
        }
        let mut end = ptr::null_mut();
        // SAFETY: from within a text that a zero ends.
        let (value, len) = unsafe {
            let begin = self.text.as_ptr().add(self.at);
            let value = libc::strtod(begin, &raw mut end);
            (value, end.offset_from_unsigned(begin))
        };
        if len == 0 {
            return bad;
        }
        self.at += len;
        Token::Number(value)
    }
}

/// Is this, if it is a number, one that JSON does not have?
fn is_no_json(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let begins = |word: &[u8]| {
        let len = word.len();
        digits
            .get(..len)
            .is_some_and(|text| text.eq_ignore_ascii_case(word))
    };
    match digits {
        _ if text.starts_with(b"+") => true,
        [b'0', b'x' | b'X' | b'0'..=b'9', ..] => true,
        _ => begins(b"inf") || begins(b"nan"),
    }
}

/// The code point of `\uXXXX`, of which the higher ones take two escapes; and how many bytes it has.
fn unicode(text: &[u8]) -> Option<(char, usize)> {
    const LEN: usize = 6;
    let first = four_digits(text.get(2..LEN)?)?;
    if !(0xD800..0xE000).contains(&first) {
        return Some((char::from_u32(first)?, LEN));
    }
    let second = text.get(LEN..2 * LEN)?.strip_prefix(b"\\u")?;
    let second = four_digits(second)?;
    if first >= 0xDC00 || !(0xDC00..0xE000).contains(&second) {
        return None;
    }
    let character = char::from_u32(0x10000 + ((first & 0x3FF) << 10) + (second & 0x3FF))?;
    Some((character, 2 * LEN))
}

fn four_digits(digits: &[u8]) -> Option<u32> {
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
