//! `struct`: numbers and strings in the layouts of C, as Ierusalimschy's library 0.2 has them.
//!
//! ```text
//!  < > =    byte order: little, big, this machine's     b B h H l L T    1, 2, 8 and 8 bytes
//!  !n       align to n bytes at most                    in In            n bytes, 4 by default
//!  x        a zero                                      f d              4 and 8 bytes
//!  cn       n characters; c0: all, or as many as        s                characters up to a zero
//!           the number before says
//! ```

use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value, Variadic};

use crate::call::Link;
use crate::limits::Limits;
use crate::native::kind_of;
use crate::number::truncate;
use crate::reply::until_zero;
use crate::work::Work;

const INTEGER_MAX: usize = 32;
const ALIGN_MAX: usize = 8;
/// So many values fit onto Lua's stack.
const VALUES_MAX: usize = 7000;

/// A format, read one option after the other.
struct Format<'a> {
    text: &'a [u8],
    at: usize,
    little: bool,
    align: usize,
    work: Work,
}

#[derive(Clone, Copy)]
enum Item {
    Padding,
    Integer { signed: bool },
    Float,
    Double,
    Characters,
    Terminated,
}

fn error(text: impl std::fmt::Display) -> mlua::Error {
    mlua::Error::runtime(text)
}

fn argument(place: usize, function: &str, why: &str) -> mlua::Error {
    error(format!("bad argument #{place} to '{function}' ({why})"))
}

impl<'a> Format<'a> {
    /// A zero ends the text, as in C.
    fn new(text: &'a [u8], work: Work) -> Self {
        Self {
            text: until_zero(text),
            at: 0,
            little: cfg!(target_endian = "little"),
            align: 1,
            work,
        }
    }

    fn number(&mut self) -> mlua::Result<Option<usize>> {
        let rest = &self.text[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Ok(None);
        }
        self.at += count;
        let digits = std::str::from_utf8(&rest[..count]).unwrap_or_default();
        let number = digits.parse::<usize>().ok();
        number
            .filter(|&number| i32::try_from(number).is_ok())
            .map(Some)
            .ok_or_else(|| error("integral size overflow"))
    }

    /// The next item and its size, and zeros that come before it at `offset`.
    fn next(&mut self, offset: usize) -> mlua::Result<Option<(Item, usize, usize)>> {
        while let Some(&option) = self.text.get(self.at) {
            self.at += 1;
            self.work.piece(0)?;
            let (item, size) = match option {
                b' ' => continue,
                b'<' | b'>' => {
                    self.little = option == b'<';
                    continue;
                }
                b'=' => {
                    self.little = cfg!(target_endian = "little");
                    continue;
                }
                b'!' => {
                    self.align = self.number()?.unwrap_or(ALIGN_MAX);
                    if !self.align.is_power_of_two() {
                        return Err(error("alignment is not a power of 2"));
                    }
                    continue;
                }
                b'x' => (Item::Padding, 1),
                b'b' | b'B' => (
                    Item::Integer {
                        signed: option == b'b',
                    },
                    1,
                ),
                b'h' | b'H' => (
                    Item::Integer {
                        signed: option == b'h',
                    },
                    2,
                ),
                b'l' | b'L' => (
                    Item::Integer {
                        signed: option == b'l',
                    },
                    8,
                ),
                b'T' => (Item::Integer { signed: false }, 8),
                b'i' | b'I' => (
                    Item::Integer {
                        signed: option == b'i',
                    },
                    self.integer_size()?,
                ),
                b'f' => (Item::Float, 4),
                b'd' => (Item::Double, 8),
                b'c' => (Item::Characters, self.number()?.unwrap_or(1)),
                b's' => (Item::Terminated, 0),
                other => {
                    return Err(error(format!(
                        "invalid format option '{}'",
                        char::from(other)
                    )));
                }
            };
            let zeros = match item {
                Item::Characters | Item::Terminated => 0,
                // An integer of no bytes.
                _ if size == 0 => 0,
                _ => {
                    let unit = size.min(self.align);
                    (unit - (offset & (unit - 1))) & (unit - 1)
                }
            };
            return Ok(Some((item, size, zeros)));
        }
        Ok(None)
    }

    fn integer_size(&mut self) -> mlua::Result<usize> {
        let size = self.number()?.unwrap_or(4);
        if size > INTEGER_MAX {
            return Err(error(format!(
                "integral size {size} is larger than limit of {INTEGER_MAX}"
            )));
        }
        if !size.is_power_of_two() && self.align > 1 {
            return Err(error("alignment is not a power of 2"));
        }
        Ok(size)
    }
}

pub(crate) fn library(lua: &Lua, limits: &Limits, link: &Rc<Link>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let (inner, most) = (Rc::clone(link), limits.memory);
    let work = move || Work::new(&inner, most);
    let begin = work.clone();
    let pack = move |lua: &Lua, (format, values): (mlua::LuaString, Variadic<Value>)| {
        let format = format.as_bytes();
        let bytes = pack(lua, Format::new(&format, begin()), &values)?;
        lua.create_string(bytes)
    };
    table.set("pack", lua.create_function(pack)?)?;
    let begin = work.clone();
    let unpack =
        move |lua: &Lua,
              (format, text, position): (mlua::LuaString, mlua::LuaString, Option<i64>)| {
            let from = position.unwrap_or(1).checked_sub(1);
            let from = from.and_then(|from| usize::try_from(from).ok());
            let from = from.ok_or_else(|| argument(3, "unpack", "offset must be 1 or greater"))?;
            let format = format.as_bytes();
            unpack(lua, Format::new(&format, begin()), &text.as_bytes(), from)
        };
    table.set("unpack", lua.create_function(unpack)?)?;
    let size = move |_: &Lua, format: mlua::LuaString| {
        let format = format.as_bytes();
        size(Format::new(&format, work()))
    };
    table.set("size", lua.create_function(size)?)?;
    Ok(table)
}

fn pack(lua: &Lua, mut format: Format<'_>, values: &[Value]) -> mlua::Result<Vec<u8>> {
    let (mut bytes, mut taken) = (Vec::new(), 0);
    while let Some((item, size, zeros)) = format.next(bytes.len())? {
        format.work.piece(bytes.len() + zeros + size)?;
        bytes.resize(bytes.len() + zeros, 0);
        if matches!(item, Item::Padding) {
            bytes.push(0);
            continue;
        }
        let value = values.get(taken).cloned().unwrap_or(Value::Nil);
        taken += 1;
        match item {
            Item::Integer { .. } | Item::Float | Item::Double => {
                let kind = kind_at(values, taken);
                let number = lua.coerce_number(value)?;
                let number = number.ok_or_else(|| wanted(taken + 1, "number", kind))?;
                put_number(&mut bytes, item, size, number, format.little);
            }
            _ => {
                let kind = kind_at(values, taken);
                let text = lua.coerce_string(value)?;
                let text = text.ok_or_else(|| wanted(taken + 1, "string", kind))?;
                let text = text.as_bytes();
                let size = if size == 0 { text.len() } else { size };
                let part = text.get(..size);
                bytes.extend_from_slice(
                    part.ok_or_else(|| argument(taken + 1, "pack", "string too short"))?,
                );
                if matches!(item, Item::Terminated) {
                    bytes.push(0);
                }
            }
        }
    }
    Ok(bytes)
}

/// What stands in this place, from 1 on.
fn kind_at(values: &[Value], place: usize) -> &'static str {
    values.get(place - 1).map_or("no value", kind_of)
}

fn wanted(place: usize, what: &str, got: &str) -> mlua::Error {
    argument(place, "pack", &format!("{what} expected, got {got}"))
}

fn put_number(bytes: &mut Vec<u8>, item: Item, size: usize, number: f64, little: bool) {
    let begin = bytes.len();
    match item {
        Item::Float => bytes.extend_from_slice(&(number as f32).to_le_bytes()),
        Item::Double => bytes.extend_from_slice(&number.to_le_bytes()),
        _ => {
            let value = if number < 0.0 {
                truncate(number) as u64
            } else {
                number as u64
            };
            bytes.extend_from_slice(&value.to_le_bytes()[..size.min(8)]);
            bytes.resize(begin + size, 0);
        }
    }
    if !little {
        bytes[begin..].reverse();
    }
}

fn unpack(lua: &Lua, mut format: Format<'_>, text: &[u8], from: usize) -> mlua::Result<MultiValue> {
    let (mut at, mut values) = (from, Vec::new());
    while let Some((item, size, zeros)) = format.next(at)? {
        if values.len() >= VALUES_MAX {
            return Err(error("stack overflow (too many results)"));
        }
        at += zeros;
        let short = || argument(2, "unpack", "data string too short");
        let rest = text.get(at..).ok_or_else(short)?;
        let part = rest.get(..size).ok_or_else(short)?;
        match item {
            Item::Padding => {}
            Item::Integer { .. } | Item::Float | Item::Double => {
                values.push(Value::Number(number_of(item, part, format.little)));
            }
            Item::Characters if size == 0 => {
                let size = values.pop().map(|size| lua.coerce_number(size));
                let Some(count) = size.transpose()?.flatten() else {
                    return Err(error("format 'c0' needs a previous size"));
                };
                let part = rest.get(..truncate(count) as usize).ok_or_else(short)?;
                values.push(Value::String(lua.create_string(part)?));
                at += part.len();
            }
            Item::Characters => values.push(Value::String(lua.create_string(part)?)),
            Item::Terminated => {
                let end = rest.iter().position(|&byte| byte == 0);
                let end = end.ok_or_else(|| error("unfinished string in data"))?;
                values.push(Value::String(lua.create_string(&rest[..end])?));
                at += end + 1;
            }
        }
        at += size;
    }
    values.push(Value::Number((at + 1) as f64));
    Ok(MultiValue::from_vec(values))
}

fn number_of(item: Item, part: &[u8], little: bool) -> f64 {
    let mut low = [0; 8];
    let count = part.len().min(8);
    if little {
        low[..count].copy_from_slice(&part[..count]);
    } else {
        low[..count].copy_from_slice(&part[part.len() - count..]);
        low[..count].reverse();
    }
    let value = u64::from_le_bytes(low);
    match item {
        Item::Float => f64::from(f32::from_bits(value as u32)),
        Item::Double => f64::from_bits(value),
        // Of no bytes: there is nothing to shift.
        Item::Integer { .. } if count == 0 => 0.0,
        Item::Integer { signed: true } => {
            let shift = 64 - 8 * count as u32;
            (((value << shift) as i64) >> shift) as f64
        }
        _ => value as f64,
    }
}

fn size(mut format: Format<'_>) -> mlua::Result<usize> {
    let mut at = 0;
    while let Some((item, size, zeros)) = format.next(at)? {
        match item {
            Item::Terminated => {
                return Err(argument(1, "size", "option 's' has no fixed size"));
            }
            Item::Characters if size == 0 => {
                return Err(argument(1, "size", "option 'c0' has no fixed size"));
            }
            _ => at += zeros + size,
        }
    }
    Ok(at)
}
