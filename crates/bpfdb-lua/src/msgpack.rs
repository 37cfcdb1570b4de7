//! `cmsgpack`: values of Lua in the MessagePack format (<https://msgpack.org>), as lua-cmsgpack
//! 0.4 writes and reads them.

use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value, Variadic};

use crate::call::Link;
use crate::limits::Limits;
use crate::number::truncate;
use crate::work::Work;

/// Tables that lie deeper are written as nil.
const NESTING_MAX: usize = 16;

pub(crate) fn library(lua: &Lua, limits: &Limits, link: &Rc<Link>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("_NAME", "cmsgpack")?;
    table.set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.set("_COPYRIGHT", "")?;
    table.set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    let (inner, most) = (Rc::clone(link), limits.memory);
    let pack = move |lua: &Lua, values: Variadic<Value>| {
        if values.is_empty() {
            return Err(argument("pack", "MessagePack pack needs input."));
        }
        let mut writer = Writer {
            work: Work::new(&inner, most),
            bytes: Vec::new(),
        };
        for value in values.iter() {
            writer.value(value, 0)?;
        }
        lua.create_string(writer.bytes)
    };
    table.set("pack", lua.create_function(pack)?)?;
    let inner = Rc::clone(link);
    let unpack = move |lua: &Lua, text: mlua::LuaString| {
        let text = text.as_bytes().to_vec();
        Reader::new(lua, &text, 0, Work::new(&inner, most)).several(usize::MAX)
    };
    table.set("unpack", lua.create_function(unpack)?)?;
    add_partial(lua, &table, limits, link)?;
    Ok(table)
}

fn argument(function: &str, why: &str) -> mlua::Error {
    mlua::Error::runtime(format!("bad argument #0 to '{function}' ({why})"))
}

/// `unpack_one` and `unpack_limit`: where to go on, or -1 at the end, and the values.
fn add_partial(lua: &Lua, table: &Table, limits: &Limits, link: &Rc<Link>) -> mlua::Result<()> {
    let most = limits.memory;
    let part = move |lua: &Lua, link: &Rc<Link>, text: &[u8], limit: f64, offset: f64| {
        let (limit, offset) = (truncate(limit), truncate(offset));
        let (Ok(limit), Ok(offset)) = (usize::try_from(limit), usize::try_from(offset)) else {
            // What it calls the limit is the length.
            return Err(mlua::Error::runtime(format!(
                "Invalid request to unpack with offset of {offset} and limit of {}.",
                text.len()
            )));
        };
        if offset > text.len() {
            return Err(mlua::Error::runtime(format!(
                "Start offset {offset} greater than input length {}.",
                text.len()
            )));
        }
        let mut reader = Reader::new(lua, text, offset, Work::new(link, most));
        if limit == 0 && offset == 0 {
            // As `unpack`.
            return reader.several(usize::MAX);
        }
        let mut values = reader.several(limit)?;
        let next = match reader.at {
            at if at >= text.len() => -1.0,
            at => at as f64,
        };
        values.push_front(Value::Number(next));
        Ok(values)
    };
    let inner = Rc::clone(link);
    let one = move |lua: &Lua, (text, offset): (mlua::LuaString, Option<f64>)| {
        part(lua, &inner, &text.as_bytes(), 1.0, offset.unwrap_or(0.0))
    };
    table.set("unpack_one", lua.create_function(one)?)?;
    let inner = Rc::clone(link);
    let limit = move |lua: &Lua, (text, limit, offset): (mlua::LuaString, f64, Option<f64>)| {
        part(lua, &inner, &text.as_bytes(), limit, offset.unwrap_or(0.0))
    };
    table.set("unpack_limit", lua.create_function(limit)?)
}

// ---- Writing -----------------------------------------------------------------------

struct Writer {
    work: Work,
    bytes: Vec<u8>,
}

impl Writer {
    fn put(&mut self, marker: u8, bytes: &[u8]) {
        self.bytes.push(marker);
        self.bytes.extend_from_slice(bytes);
    }

    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        self.work.piece(self.bytes.len())?;
        match value {
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Boolean(value) => self.put(if *value { 0xC3 } else { 0xC2 }, &[]),
            Value::Integer(value) => self.integer(*value),
            Value::Number(value) => self.number(*value),
            Value::Table(table) if depth < NESTING_MAX => self.table(table, depth)?,
            _ => self.put(0xC0, &[]),
        }
        Ok(())
    }

    /// A length behind the marker that has it in as many bytes; the first one has it itself.
    fn length(&mut self, len: usize, fixed: (u8, usize), markers: [Option<u8>; 3]) {
        let [one, two, four] = markers;
        match (len, one, two, four) {
            (len, ..) if len <= fixed.1 => self.put(fixed.0 | len as u8, &[]),
            (0..=0xFF, Some(marker), ..) => self.put(marker, &[len as u8]),
            (0..=0xFFFF, _, Some(marker), _) => self.put(marker, &(len as u16).to_be_bytes()),
            (_, _, _, Some(marker)) => self.put(marker, &(len as u32).to_be_bytes()),
            _ => {}
        }
    }

    fn string(&mut self, text: &[u8]) {
        self.length(text.len(), (0xA0, 31), [Some(0xD9), Some(0xDA), Some(0xDB)]);
        self.bytes.extend_from_slice(text);
    }

    fn integer(&mut self, value: i64) {
        match value {
            0..=127 => self.put(value as u8, &[]),
            128..=0xFF => self.put(0xCC, &[value as u8]),
            0x100..=0xFFFF => self.put(0xCD, &(value as u16).to_be_bytes()),
            0x1_0000..=0xFFFF_FFFF => self.put(0xCE, &(value as u32).to_be_bytes()),
            0x1_0000_0000.. => self.put(0xCF, &value.to_be_bytes()),
            -32..0 => self.put(value as u8, &[]),
            -128..-32 => self.put(0xD0, &[value as u8]),
            -32_768..-128 => self.put(0xD1, &(value as i16).to_be_bytes()),
            -2_147_483_648..-32_768 => self.put(0xD2, &(value as i32).to_be_bytes()),
            _ => self.put(0xD3, &value.to_be_bytes()),
        }
    }

    /// An integer if it is one; else in four bytes, if these are enough.
    fn number(&mut self, value: f64) {
        // One from 2^63 on would become 2^63 - 1.
        let is_integer = value < 9_223_372_036_854_775_808.0 && value as i64 as f64 == value;
        if is_integer {
            self.integer(value as i64);
        } else if f64::from(value as f32) == value {
            self.put(0xCA, &(value as f32).to_be_bytes());
        } else {
            self.put(0xCB, &value.to_be_bytes());
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        let (mut count, mut highest, mut is_array) = (0, 0, true);
        for pair in table.pairs::<Value, Value>() {
            self.work.piece(self.bytes.len())?;
            match pair?.0 {
                Value::Integer(index) if index > 0 => highest = highest.max(index as usize),
                _ => is_array = false,
            }
            count += 1;
        }
        if is_array && highest == count {
            self.length(count, (0x90, 15), [None, Some(0xDC), Some(0xDD)]);
            for index in 1..=count {
                self.value(&table.raw_get(index)?, depth + 1)?;
            }
            return Ok(());
        }
        self.length(count, (0x80, 15), [None, Some(0xDE), Some(0xDF)]);
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.value(&key, depth + 1)?;
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }
}

// ---- Reading -----------------------------------------------------------------------

struct Reader<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
    work: Work,
}

fn missing() -> mlua::Error {
    mlua::Error::runtime("Missing bytes in input.")
}

fn bad() -> mlua::Error {
    mlua::Error::runtime("Bad data format in input.")
}

impl<'a> Reader<'a> {
    fn new(lua: &'a Lua, text: &'a [u8], at: usize, work: Work) -> Self {
        Self {
            lua,
            text,
            at,
            work,
        }
    }

    /// Up to so many values, or all.
    fn several(&mut self, limit: usize) -> mlua::Result<MultiValue> {
        // So many values fit onto Lua's stack.
        const MOST: usize = 7000;
        let mut values = Vec::new();
        while self.at < self.text.len() && values.len() < limit {
            if values.len() >= MOST {
                return Err(mlua::Error::runtime("too many results to unpack"));
            }
            values.push(self.value(0)?);
        }
        Ok(MultiValue::from_vec(values))
    }

    fn bytes(&mut self, count: usize) -> mlua::Result<&'a [u8]> {
        let bytes = self.text.get(self.at..).and_then(|rest| rest.get(..count));
        self.at += count;
        bytes.ok_or_else(missing)
    }

    /// An unsigned number of so many bytes.
    fn unsigned(&mut self, bytes: usize) -> mlua::Result<u64> {
        let bytes = self.bytes(bytes)?;
        Ok(bytes
            .iter()
            .fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    fn signed(&mut self, bytes: usize) -> mlua::Result<Value> {
        let shift = 64 - 8 * bytes as u32;
        let value = ((self.unsigned(bytes)? << shift) as i64) >> shift;
        Ok(Value::Number(value as f64))
    }

    fn string(&mut self, len: usize) -> mlua::Result<Value> {
        let bytes = self.bytes(len)?;
        self.lua.create_string(bytes).map(Value::String)
    }

    fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        // Deeper than our own stack.
        const DEPTH_MAX: usize = 1000;
        if depth > DEPTH_MAX {
            return Err(bad());
        }
        self.work.piece(0)?;
        let marker = self.bytes(1)?[0];
        Ok(match marker {
            0x00..=0x7F => Value::Number(f64::from(marker)),
            0xE0..=0xFF => Value::Number(f64::from(marker as i8)),
            0x80..=0x8F => self.map(usize::from(marker & 15), depth)?,
            0x90..=0x9F => self.array(usize::from(marker & 15), depth)?,
            0xA0..=0xBF => self.string(usize::from(marker & 31))?,
            0xC0 => Value::Nil,
            0xC2 => Value::Boolean(false),
            0xC3 => Value::Boolean(true),
            0xCA => Value::Number(f64::from(f32::from_bits(self.unsigned(4)? as u32))),
            0xCB => Value::Number(f64::from_bits(self.unsigned(8)?)),
            0xCC..=0xCF => Value::Number(self.unsigned(1 << (marker - 0xCC))? as f64),
            0xD0..=0xD3 => self.signed(1 << (marker - 0xD0))?,
            0xD9..=0xDB => {
                let len = self.unsigned(1 << (marker - 0xD9))? as usize;
                self.string(len)?
            }
            0xDC | 0xDD => {
                let len = self.unsigned(2 << (marker - 0xDC))? as usize;
                self.array(len, depth)?
            }
            0xDE | 0xDF => {
                let len = self.unsigned(2 << (marker - 0xDE))? as usize;
                self.map(len, depth)?
            }
            _ => return Err(bad()),
        })
    }

    fn array(&mut self, len: usize, depth: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for index in 1..=len {
            let value = self.value(depth + 1)?;
            table.raw_set(index, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize, depth: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let (key, value) = (self.value(depth + 1)?, self.value(depth + 1)?);
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }
}
