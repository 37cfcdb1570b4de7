//! `cjson`: values of Lua as JSON, as lua-cjson 2.1 writes and reads them (RFC 8259, with the
//! numbers that it takes besides).

use std::cell::Cell;
use std::ffi::CStr;
use std::ptr;
use std::rc::Rc;

use mlua::{Function, Lua, Table, Value, Variadic};

use crate::call::Link;
use crate::limits::Limits;
use crate::native::kind_of;
use crate::number;
use crate::work::{PIECE_BYTES, Work};

/// The deepest nesting, whatever a script sets: each level takes about 1 KiB of the call's stack.
/// Redis ends a little later, where Lua's own stack has no more room.
const NESTING_MAX: usize = 1000;

/// What a script may change. As new in each call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// Tables with holes become objects, instead of an error.
    sparse_convert: bool,
    /// An array is sparse if its highest index is more than so many times its elements. 0: none is.
    sparse_ratio: usize,
    /// And higher than this.
    sparse_safe: usize,
    encode_depth: usize,
    decode_depth: usize,
    precision: usize,
    /// NaN and infinity are written.
    encode_invalid: Invalid,
    decode_invalid: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invalid {
    Refused,
    AsNull,
    Written,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: NESTING_MAX,
            decode_depth: NESTING_MAX,
            precision: number::SHOWN,
            encode_invalid: Invalid::Refused,
            decode_invalid: true,
        }
    }
}

/// With the settings of the call, which are those of all who have this table.
pub(crate) fn library(lua: &Lua, limits: &Limits, link: &Rc<Link>) -> mlua::Result<Table> {
    with_settings(lua, limits, link, &link.json)
}

/// `new()`: the same with settings of its own.
pub(crate) fn new(lua: &Lua, limits: &Limits, link: &Rc<Link>) -> mlua::Result<Function> {
    let (limits, link) = (*limits, Rc::clone(link));
    lua.create_function(move |lua, ()| with_settings(lua, &limits, &link, &Rc::default()))
}

fn with_settings(
    lua: &Lua,
    limits: &Limits,
    link: &Rc<Link>,
    config: &Rc<Cell<Config>>,
) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("_NAME", "cjson")?;
    table.set("_VERSION", "2.1.0")?;
    table.set("null", Value::NULL)?;
    let (inner, settings, most) = (Rc::clone(link), Rc::clone(config), limits.memory);
    let encode = move |lua: &Lua, arguments: Variadic<Value>| {
        let [value] = &arguments[..] else {
            return Err(mlua::Error::runtime(
                "bad argument #1 to 'encode' (expected 1 argument)",
            ));
        };
        let mut writer = Writer {
            config: settings.get(),
            work: Work::new(&inner, most),
            bytes: Vec::new(),
        };
        writer.value(value, 0)?;
        lua.create_string(writer.bytes)
    };
    table.set("encode", lua.create_function(encode)?)?;
    let (inner, settings) = (Rc::clone(link), Rc::clone(config));
    let decode = move |lua: &Lua, arguments: Variadic<Value>| {
        let text = match &arguments[..] {
            [Value::String(text)] => text.as_bytes().to_vec(),
            [Value::Number(value)] => number::format(*value, number::SHOWN).into_bytes(),
            [Value::Integer(value)] => number::format(*value as f64, number::SHOWN).into_bytes(),
            [other] => {
                let kind = kind_of(other);
                return Err(mlua::Error::runtime(format!(
                    "bad argument #1 to 'decode' (string expected, got {kind})"
                )));
            }
            _ => {
                return Err(mlua::Error::runtime(
                    "bad argument #1 to 'decode' (expected 1 argument)",
                ));
            }
        };
        let text = terminated(text)?;
        let mut reader = Reader {
            lua,
            config: settings.get(),
            work: Work::new(&inner, most),
            // A zero ends it, as in C.
            text: CStr::from_bytes_until_nul(&text).unwrap_or_default(),
            at: 0,
            token_at: 0,
        };
        reader.whole()
    };
    table.set("decode", lua.create_function(decode)?)?;
    add_settings(lua, &table, config)?;
    Ok(table)
}

/// A text to be read by C.
fn terminated(mut text: Vec<u8>) -> mlua::Result<Vec<u8>> {
    // In UTF-16 or UTF-32 one of the first two bytes is zero.
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(mlua::Error::runtime(
            "JSON parser does not support UTF-16 or UTF-32",
        ));
    }
    text.push(0);
    Ok(text)
}

/// A depth, or a precision, from 1 to `most`.
fn checked(value: Option<i64>, most: usize, name: &str) -> mlua::Result<Option<usize>> {
    let Some(value) = value else {
        return Ok(None);
    };
    let fits = usize::try_from(value)
        .ok()
        .filter(|value| (1..=most).contains(value));
    fits.map(Some).ok_or_else(|| {
        mlua::Error::runtime(format!(
            "bad argument #1 to '{name}' (expected integer between 1 and {most})"
        ))
    })
}

fn add_settings(lua: &Lua, table: &Table, config: &Rc<Cell<Config>>) -> mlua::Result<()> {
    const DEPTH_MAX: usize = i32::MAX as usize;
    let number = |name: &'static str, most: usize, field: fn(&mut Config) -> &mut usize| {
        let settings = Rc::clone(config);
        let set = move |_: &Lua, value: Option<i64>| {
            let mut config = settings.get();
            if let Some(value) = checked(value, most, name)? {
                *field(&mut config) = value;
                settings.set(config);
            }
            Ok(*field(&mut config))
        };
        table.set(name, lua.create_function(set)?)
    };
    number("encode_max_depth", DEPTH_MAX, |config| {
        &mut config.encode_depth
    })?;
    number("decode_max_depth", DEPTH_MAX, |config| {
        &mut config.decode_depth
    })?;
    number("encode_number_precision", number::SHOWN, |config| {
        &mut config.precision
    })?;
    let settings = Rc::clone(config);
    let sparse =
        move |_: &Lua, (convert, ratio, safe): (Option<bool>, Option<usize>, Option<usize>)| {
            let mut config = settings.get();
            config.sparse_convert = convert.unwrap_or(config.sparse_convert);
            config.sparse_ratio = ratio.unwrap_or(config.sparse_ratio);
            config.sparse_safe = safe.unwrap_or(config.sparse_safe);
            settings.set(config);
            Ok((
                config.sparse_convert,
                config.sparse_ratio,
                config.sparse_safe,
            ))
        };
    table.set("encode_sparse_array", lua.create_function(sparse)?)?;
    let settings = Rc::clone(config);
    let encode_invalid = move |lua: &Lua, value: Value| {
        let mut config = settings.get();
        config.encode_invalid = match &value {
            Value::Nil => config.encode_invalid,
            Value::Boolean(true) => Invalid::Written,
            Value::String(text) if *text == "on" => Invalid::Written,
            Value::String(text) if *text == "null" => Invalid::AsNull,
            _ => Invalid::Refused,
        };
        settings.set(config);
        match config.encode_invalid {
            Invalid::Refused => Ok(Value::Boolean(false)),
            Invalid::Written => Ok(Value::Boolean(true)),
            Invalid::AsNull => lua.create_string("null").map(Value::String),
        }
    };
    table.set(
        "encode_invalid_numbers",
        lua.create_function(encode_invalid)?,
    )?;
    let settings = Rc::clone(config);
    let decode_invalid = move |_: &Lua, value: Option<bool>| {
        let mut config = settings.get();
        config.decode_invalid = value.unwrap_or(config.decode_invalid);
        settings.set(config);
        Ok(config.decode_invalid)
    };
    table.set(
        "decode_invalid_numbers",
        lua.create_function(decode_invalid)?,
    )?;
    // There is no buffer to keep.
    let keep = |_: &Lua, value: Option<bool>| Ok(value.unwrap_or(true));
    table.set("encode_keep_buffer", lua.create_function(keep)?)
}

// ---- Writing -----------------------------------------------------------------------

struct Writer {
    config: Config,
    work: Work,
    bytes: Vec<u8>,
}

fn unfit(kind: &str, why: &str) -> mlua::Error {
    mlua::Error::runtime(format!("Cannot serialise {kind}: {why}"))
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        self.work.piece(self.bytes.len())?;
        match value {
            Value::Nil => self.bytes.extend_from_slice(b"null"),
            Value::LightUserData(data) if data.0.is_null() => {
                self.bytes.extend_from_slice(b"null");
            }
            Value::Boolean(true) => self.bytes.extend_from_slice(b"true"),
            Value::Boolean(false) => self.bytes.extend_from_slice(b"false"),
            Value::Integer(value) => self.number(*value as f64)?,
            Value::Number(value) => self.number(*value)?,
            Value::String(text) => self.string(&text.as_bytes())?,
            Value::Table(table) => self.table(table, depth + 1)?,
            other => return Err(unfit(other.type_name(), "type not supported")),
        }
        Ok(())
    }

    fn number(&mut self, value: f64) -> mlua::Result<()> {
        if !value.is_finite() {
            match self.config.encode_invalid {
                Invalid::Refused => {
                    return Err(unfit("number", "must not be NaN or Inf"));
                }
                Invalid::AsNull => {
                    self.bytes.extend_from_slice(b"null");
                    return Ok(());
                }
                Invalid::Written if value.is_nan() => {
                    self.bytes.extend_from_slice(b"nan");
                    return Ok(());
                }
                Invalid::Written => {}
            }
        }
        let text = number::format(value, self.config.precision);
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn string(&mut self, text: &[u8]) -> mlua::Result<()> {
        self.bytes.push(b'"');
        for part in text.chunks(PIECE_BYTES) {
            self.work.piece(self.bytes.len())?;
            part.iter().for_each(|&byte| self.byte(byte));
        }
        self.bytes.push(b'"');
        Ok(())
    }

    /// Of a string.
    fn byte(&mut self, byte: u8) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        match byte {
            b'"' | b'\\' | b'/' => self.bytes.extend_from_slice(&[b'\\', byte]),
            8 => self.bytes.extend_from_slice(b"\\b"),
            9 => self.bytes.extend_from_slice(b"\\t"),
            10 => self.bytes.extend_from_slice(b"\\n"),
            12 => self.bytes.extend_from_slice(b"\\f"),
            13 => self.bytes.extend_from_slice(b"\\r"),
            0..32 | 127 => {
                let digit = |value: u8| DIGITS[usize::from(value)];
                let escape = [b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)];
                self.bytes.extend_from_slice(&escape);
            }
            _ => self.bytes.push(byte),
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        if depth > self.config.encode_depth.min(NESTING_MAX) {
            return Err(mlua::Error::runtime(format!(
                "Cannot serialise, excessive depth ({depth})"
            )));
        }
        match self.array_length(table)? {
            Some(len) if len > 0 => self.array(table, len, depth),
            _ => self.object(table, depth),
        }
    }

    /// The highest index, if all keys are indexes.
    fn array_length(&mut self, table: &Table) -> mlua::Result<Option<usize>> {
        let (mut highest, mut count) = (0, 0);
        for pair in table.pairs::<Value, Value>() {
            self.work.piece(self.bytes.len())?;
            let index = match pair?.0 {
                Value::Integer(index) if index > 0 => index as usize,
                _ => return Ok(None),
            };
            highest = highest.max(index);
            count += 1;
        }
        let Config {
            sparse_ratio,
            sparse_safe,
            ..
        } = self.config;
        let is_sparse = sparse_ratio > 0 && highest > count * sparse_ratio && highest > sparse_safe;
        if !is_sparse {
            return Ok(Some(highest));
        }
        if self.config.sparse_convert {
            return Ok(None);
        }
        Err(unfit("table", "excessively sparse array"))
    }

    fn array(&mut self, table: &Table, len: usize, depth: usize) -> mlua::Result<()> {
        self.bytes.push(b'[');
        for index in 1..=len {
            if index > 1 {
                self.bytes.push(b',');
            }
            self.value(&table.raw_get(index)?, depth)?;
        }
        self.bytes.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        self.bytes.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !is_first {
                self.bytes.push(b',');
            }
            is_first = false;
            match key {
                Value::String(key) => self.string(&key.as_bytes())?,
                Value::Integer(key) => self.number_as_key(key as f64)?,
                Value::Number(key) => self.number_as_key(key)?,
                _ => return Err(unfit("table", "table key must be a number or string")),
            }
            self.bytes.push(b':');
            self.value(&value, depth)?;
        }
        self.bytes.push(b'}');
        Ok(())
    }

    fn number_as_key(&mut self, key: f64) -> mlua::Result<()> {
        self.bytes.push(b'"');
        self.number(key)?;
        self.bytes.push(b'"');
        Ok(())
    }
}

// ---- Reading -----------------------------------------------------------------------

struct Reader<'a> {
    lua: &'a Lua,
    config: Config,
    work: Work,
    /// With a zero behind its end, for C.
    text: &'a CStr,
    /// Behind the token that was read last.
    at: usize,
    /// Where that begins, or what is wrong with it.
    token_at: usize,
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
    fn whole(&mut self) -> mlua::Result<Value> {
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
