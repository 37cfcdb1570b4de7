//! `cjson`: values of Lua as JSON, as lua-cjson 2.1 writes and reads them (RFC 8259, with the
//! numbers that it takes besides).

mod reader;
mod writer;

use std::cell::Cell;
use std::ffi::CStr;
use std::rc::Rc;

use mlua::{Function, Lua, Table, Value, Variadic};

use crate::call::Link;
use crate::limits::Limits;
use crate::native::kind_of;
use crate::number;
use crate::work::Work;

use reader::Reader;
use writer::Writer;

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

/// With the settings of the call, which are those of all that have this table.
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
