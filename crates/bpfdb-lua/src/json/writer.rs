//! Values of Lua become a text.

use mlua::{Table, Value};

use super::{Config, Invalid, NESTING_MAX};
use crate::number;
use crate::work::{PIECE_BYTES, Work};

pub(super) struct Writer {
    pub(super) config: Config,
    pub(super) work: Work,
    pub(super) bytes: Vec<u8>,
}

fn unfit(kind: &str, why: &str) -> mlua::Error {
    mlua::Error::runtime(format!("Cannot serialise {kind}: {why}"))
}

impl Writer {
    pub(super) fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
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
