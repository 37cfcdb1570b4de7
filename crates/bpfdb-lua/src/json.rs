//! `cjson`: values of Lua as JSON, as lua-cjson 2.1 writes and reads them (RFC 8259, with the
//! numbers that it takes besides).

use std::rc::Rc;

use mlua::{Lua, Table, Value, Variadic};

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

pub(crate) fn library(lua: &Lua, limits: &Limits, link: &Rc<Link>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("_NAME", "cjson")?;
    table.set("_VERSION", "2.1.0")?;
    table.set("null", Value::NULL)?;
    let (inner, most) = (Rc::clone(link), limits.memory);
    let encode = move |lua: &Lua, arguments: Variadic<Value>| {
        let [value] = &arguments[..] else {
            return Err(mlua::Error::runtime(
                "bad argument #1 to 'encode' (expected 1 argument)",
            ));
        };
        let mut writer = Writer {
            config: inner.json.get(),
            work: Work::new(&inner, most),
            bytes: Vec::new(),
        };
        writer.value(value, 0)?;
        lua.create_string(writer.bytes)
    };
    table.set("encode", lua.create_function(encode)?)?;
    let inner = Rc::clone(link);
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
        let mut reader = Reader {
            lua,
            config: inner.json.get(),
            work: Work::new(&inner, most),
            text: &text,
            at: 0,
        };
        reader.whole()
    };
    table.set("decode", lua.create_function(decode)?)?;
    add_settings(lua, &table, link)?;
    Ok(table)
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

fn add_settings(lua: &Lua, table: &Table, link: &Rc<Link>) -> mlua::Result<()> {
    const DEPTH_MAX: usize = i32::MAX as usize;
    let number = |name: &'static str, most: usize, field: fn(&mut Config) -> &mut usize| {
        let inner = Rc::clone(link);
        let set = move |_: &Lua, value: Option<i64>| {
            let mut config = inner.json.get();
            if let Some(value) = checked(value, most, name)? {
                *field(&mut config) = value;
                inner.json.set(config);
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
    let inner = Rc::clone(link);
    let sparse =
        move |_: &Lua, (convert, ratio, safe): (Option<bool>, Option<usize>, Option<usize>)| {
            let mut config = inner.json.get();
            config.sparse_convert = convert.unwrap_or(config.sparse_convert);
            config.sparse_ratio = ratio.unwrap_or(config.sparse_ratio);
            config.sparse_safe = safe.unwrap_or(config.sparse_safe);
            inner.json.set(config);
            Ok((
                config.sparse_convert,
                config.sparse_ratio,
                config.sparse_safe,
            ))
        };
    table.set("encode_sparse_array", lua.create_function(sparse)?)?;
    let inner = Rc::clone(link);
    let encode_invalid = move |lua: &Lua, value: Value| {
        let mut config = inner.json.get();
        config.encode_invalid = match &value {
            Value::Nil => config.encode_invalid,
            Value::Boolean(true) => Invalid::Written,
            Value::String(text) if *text == "on" => Invalid::Written,
            Value::String(text) if *text == "null" => Invalid::AsNull,
            _ => Invalid::Refused,
        };
        inner.json.set(config);
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
    let inner = Rc::clone(link);
    let decode_invalid = move |_: &Lua, value: Option<bool>| {
        let mut config = inner.json.get();
        config.decode_invalid = value.unwrap_or(config.decode_invalid);
        inner.json.set(config);
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
    text: &'a [u8],
    at: usize,
}

/// What stands where something else was expected, as lua-cjson names it.
#[derive(Clone, Copy)]
enum Found {
    ObjectEnd,
    ArrayEnd,
    Comma,
    Colon,
    ObjectBegin,
    ArrayBegin,
    String,
    Number,
    Boolean,
    Null,
    End,
    Invalid,
}

impl Found {
    fn name(self) -> &'static str {
        match self {
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayEnd => "T_ARR_END",
            Self::Comma => "T_COMMA",
            Self::Colon => "T_COLON",
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::String => "T_STRING",
            Self::Number => "T_NUMBER",
            Self::Boolean => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::End => "T_END",
            Self::Invalid => "invalid token",
        }
    }
}

impl Reader<'_> {
    fn whole(&mut self) -> mlua::Result<Value> {
        // In UTF-16 or UTF-32 one of the first two bytes is zero.
        if self.text.len() >= 2 && (self.text[0] == 0 || self.text[1] == 0) {
            return Err(mlua::Error::runtime(
                "JSON parser does not support UTF-16 or UTF-32",
            ));
        }
        let value = self.value(0)?;
        self.skip_space();
        if self.at < self.text.len() {
            return Err(self.unexpected("the end"));
        }
        Ok(value)
    }

    fn skip_space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn found(&self) -> Found {
        match self.peek() {
            None => Found::End,
            Some(b'}') => Found::ObjectEnd,
            Some(b']') => Found::ArrayEnd,
            Some(b',') => Found::Comma,
            Some(b':') => Found::Colon,
            Some(b'{') => Found::ObjectBegin,
            Some(b'[') => Found::ArrayBegin,
            Some(b'"') => Found::String,
            Some(b'-' | b'0'..=b'9') => Found::Number,
            _ if self.rest().starts_with(b"null") => Found::Null,
            _ if self.rest().starts_with(b"true") || self.rest().starts_with(b"false") => {
                Found::Boolean
            }
            _ => Found::Invalid,
        }
    }

    fn rest(&self) -> &[u8] {
        &self.text[self.at..]
    }

    fn unexpected(&self, expected: &str) -> mlua::Error {
        mlua::Error::runtime(format!(
            "Expected {expected} but found {} at character {}",
            self.found().name(),
            self.at + 1
        ))
    }

    fn take(&mut self, word: &[u8]) -> bool {
        let has = self.rest().starts_with(word);
        if has {
            self.at += word.len();
        }
        has
    }

    fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        self.work.piece(0)?;
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => {
                let text = self.string()?;
                self.lua.create_string(text).map(Value::String)
            }
            _ if self.take(b"true") => Ok(Value::Boolean(true)),
            _ if self.take(b"false") => Ok(Value::Boolean(false)),
            _ if self.take(b"null") => Ok(Value::NULL),
            _ => self.number(),
        }
    }

    fn descend(&mut self, depth: usize) -> mlua::Result<()> {
        if depth > self.config.decode_depth.min(NESTING_MAX) {
            return Err(mlua::Error::runtime(format!(
                "Found too many nested data structures ({depth})"
            )));
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    fn object(&mut self, depth: usize) -> mlua::Result<Value> {
        self.descend(depth)?;
        let table = self.lua.create_table()?;
        if self.take(b"}") {
            return Ok(Value::Table(table));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("object key string"));
            }
            let key = self.string()?;
            self.skip_space();
            if !self.take(b":") {
                return Err(self.unexpected("colon"));
            }
            let value = self.value(depth)?;
            table.raw_set(self.lua.create_string(key)?, value)?;
            self.skip_space();
            if self.take(b"}") {
                return Ok(Value::Table(table));
            }
            if !self.take(b",") {
                return Err(self.unexpected("comma or object end"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> mlua::Result<Value> {
        self.descend(depth)?;
        let table = self.lua.create_table()?;
        if self.take(b"]") {
            return Ok(Value::Table(table));
        }
        for index in 1_i64.. {
            let value = self.value(depth)?;
            table.raw_set(index, value)?;
            self.skip_space();
            if self.take(b"]") {
                break;
            }
            if !self.take(b",") {
                return Err(self.unexpected("comma or array end"));
            }
        }
        Ok(Value::Table(table))
    }

    fn string(&mut self) -> mlua::Result<Vec<u8>> {
        let begin = self.at;
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let Some(byte) = self.peek() else {
                self.at = begin;
                return Err(mlua::Error::runtime(format!(
                    "Expected value but found unexpected end of string at character {}",
                    self.text.len() + 1
                )));
            };
            self.at += 1;
            if (self.at - begin).is_multiple_of(PIECE_BYTES) {
                self.work.piece(0)?;
            }
            match byte {
                b'"' => return Ok(bytes),
                b'\\' => self.escape(&mut bytes)?,
                _ => bytes.push(byte),
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> mlua::Result<()> {
        let at = self.at;
        let byte = self.peek().unwrap_or_default();
        self.at += 1;
        bytes.push(match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let Some(character) = self.unicode() else {
                    return Err(mlua::Error::runtime(format!(
                        "Expected value but found invalid unicode escape code at character {at}"
                    )));
                };
                let mut utf8 = [0; 4];
                bytes.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
                return Ok(());
            }
            _ => {
                return Err(mlua::Error::runtime(format!(
                    "Expected value but found invalid escape code at character {at}"
                )));
            }
        });
        Ok(())
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        self.at += 4;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }

    /// One code point, of which the higher ones take two escapes.
    fn unicode(&mut self) -> Option<char> {
        let first = self.four_digits()?;
        if !(0xD800..0xE000).contains(&first) {
            return char::from_u32(first);
        }
        if first >= 0xDC00 || !self.take(b"\\u") {
            return None;
        }
        let second = self.four_digits()?;
        if !(0xDC00..0xE000).contains(&second) {
            return None;
        }
        char::from_u32(0x10000 + ((first & 0x3FF) << 10) + (second & 0x3FF))
    }

    /// As strtod of C reads it, which takes more than JSON has.
    fn number(&mut self) -> mlua::Result<Value> {
        let expected = "value";
        let rest = self.rest();
        let sign = usize::from(rest.first() == Some(&b'-'));
        let digits = &rest[sign..];
        let word = |word: &[u8]| {
            digits.len() >= word.len() && digits[..word.len()].eq_ignore_ascii_case(word)
        };
        if !digits.first().is_some_and(u8::is_ascii_digit) {
            let special = [
                (&b"infinity"[..], f64::INFINITY),
                (b"inf", f64::INFINITY),
                (b"nan", f64::NAN),
            ];
            let special = special.into_iter().find(|(name, _)| word(name));
            let Some((name, value)) = special.filter(|_| self.config.decode_invalid) else {
                return Err(self.unexpected(expected));
            };
            self.at += sign + name.len();
            return Ok(Value::Number(if sign == 1 { -value } else { value }));
        }
        if word(b"0x") {
            return self.hexadecimal(sign);
        }
        // No leading zeros in JSON.
        let leads = digits[0] == b'0' && digits.get(1).is_some_and(u8::is_ascii_digit);
        if leads && !self.config.decode_invalid {
            return Err(self.unexpected(expected));
        }
        let len = sign + decimal_length(digits);
        let text = std::str::from_utf8(&rest[..len]).unwrap_or_default();
        let value: f64 = text.parse().map_err(|_| self.unexpected(expected))?;
        self.at += len;
        Ok(Value::Number(value))
    }

    fn hexadecimal(&mut self, sign: usize) -> mlua::Result<Value> {
        let digits = &self.rest()[sign + 2..];
        let count = digits
            .iter()
            .take_while(|digit| digit.is_ascii_hexdigit())
            .count();
        if count == 0 || !self.config.decode_invalid {
            return Err(self.unexpected("value"));
        }
        let value = digits[..count].iter().fold(0.0, |value, &digit| {
            value * 16.0 + f64::from(char::from(digit).to_digit(16).unwrap_or_default())
        });
        self.at += sign + 2 + count;
        Ok(Value::Number(if sign == 1 { -value } else { value }))
    }
}

/// Bytes of digits, a fraction and an exponent.
fn decimal_length(text: &[u8]) -> usize {
    let digits = |from: usize| {
        text[from..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let mut len = digits(0);
    if text.get(len) == Some(&b'.') {
        len += 1 + digits(len + 1);
    }
    if matches!(text.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let exponent = text
            .get(len + 1 + sign..)
            .map_or(0, |_| digits(len + 1 + sign));
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    len
}
