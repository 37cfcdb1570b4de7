//! Replies of commands as values of Lua.
//!
//! Each part becomes a value at once: so all of it counts as the memory of the script, and no other client
//! waits for a long one.

use mlua::{Lua, Table, Value};

use crate::reply::DEPTH_MAX;
use crate::work::{Cut, Work};

/// The value, and whether it is an error, of the one reply in these bytes, of either protocol. Bytes
/// that are no reply are an error. `resp3`: the script has asked for values of RESP3.
pub(crate) fn read(
    lua: &Lua,
    bytes: &[u8],
    resp3: bool,
    work: Work,
) -> mlua::Result<(Value, bool)> {
    let mut reader = Reader {
        lua,
        rest: bytes,
        resp3,
        work,
    };
    match reader.whole() {
        Ok(value) => Ok((value, bytes.starts_with(b"-"))),
        Err(Unread::NoReply) => Ok((reader.error(b"ERR the command has no reply")?, true)),
        Err(Unread::Lua(error)) => Err(error),
    }
}

/// Why there is no value.
enum Unread {
    NoReply,
    Lua(mlua::Error),
}

impl From<mlua::Error> for Unread {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

impl From<Cut> for Unread {
    fn from(cut: Cut) -> Self {
        Self::Lua(cut.into())
    }
}

struct Reader<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
    resp3: bool,
    work: Work,
}

impl<'a> Reader<'a> {
    fn whole(&mut self) -> Result<Value, Unread> {
        let value = self.value(0)?;
        match self.rest {
            [] => Ok(value),
            _ => Err(Unread::NoReply),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Unread> {
        if depth > DEPTH_MAX {
            return Err(Unread::NoReply);
        }
        self.work.piece(0)?;
        let (&kind, text) = self.line()?.split_first().ok_or(Unread::NoReply)?;
        Ok(match kind {
            b'+' => self.named("ok", self.string(text)?)?,
            b'-' => self.error(text)?,
            b':' => Value::Number(number::<i64>(text)? as f64),
            b'_' => self.nil(),
            b'$' | b'*' if text == b"-1" => self.nil(),
            b'$' => {
                let bytes = self.counted(number(text)?)?;
                self.string(bytes)?
            }
            b'*' | b'>' => self.array(number(text)?, depth)?,
            b'~' => self.set(number(text)?, depth)?,
            b'%' => self.map(number(text)?, depth)?,
            b',' => self.named("double", Value::Number(number(text)?))?,
            b'#' => Value::Boolean(text == b"t"),
            b'(' => self.named("big_number", self.string(text)?)?,
            b'=' => self.verbatim(number(text)?)?,
            _ => return Err(Unread::NoReply),
        })
    }

    fn line(&mut self) -> Result<&'a [u8], Unread> {
        let end = self.rest.windows(2).position(|pair| pair == b"\r\n");
        let (line, behind) = self.rest.split_at(end.ok_or(Unread::NoReply)?);
        self.rest = &behind[2..];
        Ok(line)
    }

    /// Bytes of this length, and the end of their line.
    fn counted(&mut self, len: usize) -> Result<&'a [u8], Unread> {
        self.work.bytes(len)?;
        let split = self.rest.split_at_checked(len);
        let (bytes, behind) = split.ok_or(Unread::NoReply)?;
        self.rest = behind.strip_prefix(b"\r\n").ok_or(Unread::NoReply)?;
        Ok(bytes)
    }

    fn nil(&self) -> Value {
        match self.resp3 {
            true => Value::Nil,
            // To differ from the end of an array.
            false => Value::Boolean(false),
        }
    }

    fn string(&self, bytes: &[u8]) -> mlua::Result<Value> {
        self.lua.create_string(bytes).map(Value::String)
    }

    fn table(&self, elements: usize, fields: usize) -> mlua::Result<Table> {
        self.lua.create_table_with_capacity(elements, fields)
    }

    /// A table with this one field.
    fn named(&self, name: &str, value: Value) -> mlua::Result<Value> {
        let table = self.table(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn error(&self, text: &[u8]) -> mlua::Result<Value> {
        let error = self.table(0, 2)?;
        error.raw_set("err", self.string(text)?)?;
        error.raw_set("ignore_error_stats_update", true)?;
        Ok(Value::Table(error))
    }

    fn array(&mut self, len: usize, depth: usize) -> Result<Value, Unread> {
        let array = self.table(len, 0)?;
        for place in 1..=len {
            array.raw_set(place, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(array))
    }

    fn set(&mut self, len: usize, depth: usize) -> Result<Value, Unread> {
        let set = self.table(0, len)?;
        for _ in 0..len {
            set.raw_set(self.value(depth + 1)?, true)?;
        }
        Ok(self.named("set", Value::Table(set))?)
    }

    fn map(&mut self, len: usize, depth: usize) -> Result<Value, Unread> {
        let map = self.table(0, len)?;
        for _ in 0..len {
            let key = self.value(depth + 1)?;
            map.raw_set(key, self.value(depth + 1)?)?;
        }
        Ok(self.named("map", Value::Table(map))?)
    }

    /// A format of three letters, a colon, and a text.
    fn verbatim(&mut self, len: usize) -> Result<Value, Unread> {
        let split = self.counted(len)?.split_at_checked(4);
        let (format, text) = split.ok_or(Unread::NoReply)?;
        let verbatim = self.table(0, 2)?;
        verbatim.raw_set("format", self.string(&format[..3])?)?;
        verbatim.raw_set("string", self.string(text)?)?;
        Ok(self.named("verbatim_string", Value::Table(verbatim))?)
    }
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Result<T, Unread> {
    let text = std::str::from_utf8(digits).ok();
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or(Unread::NoReply)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    const NO_REPLY: &str = "ERR the command has no reply";

    /// What an expression of Lua makes of the reply, and whether that is an error.
    fn seen(bytes: &[u8], resp3: bool, by: &str) -> (String, bool) {
        let lua = Lua::new();
        let work = Work::new(&Rc::default(), usize::MAX);
        let (value, failed) = read(&lua, bytes, resp3, work).expect("a value");
        let function = lua.load(format!("local v = ... return tostring({by})"));
        (function.call(value).expect("it runs"), failed)
    }

    #[test]
    fn replies_of_both_protocols_are_read() {
        for (bytes, by, value) in [
            (&b"+OK\r\n"[..], "v.ok", "OK"),
            (b"-ERR no\r\n", "v.err", "ERR no"),
            (b"$-1\r\n", "v", "false"),
            (b"*-1\r\n", "v", "false"),
            (b"_\r\n", "v", "false"),
            (b":-7\r\n", "v", "-7"),
            (b"$4\r\na\r\nb\r\n", "#v", "4"),
            (b"*2\r\n*0\r\n$1\r\na\r\n", "#v .. #v[1] .. v[2]", "20a"),
            (b"%1\r\n$1\r\na\r\n,1.5\r\n", "v.map.a.double", "1.5"),
            (b"~1\r\n$1\r\na\r\n", "v.set.a", "true"),
            (b"#t\r\n", "v", "true"),
            (b"(123\r\n", "v.big_number", "123"),
            (
                b"=9\r\ntxt:hello\r\n",
                "v.verbatim_string.format .. v.verbatim_string.string",
                "txthello",
            ),
        ] {
            let failed = bytes.starts_with(b"-");
            assert_eq!(seen(bytes, false, by), (value.to_owned(), failed), "{by}");
        }
        assert_eq!(seen(b"_\r\n", true, "v").0, "nil");
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        for broken in [
            "",
            "+OK",
            "$3\r\nab\r\n",
            "*2\r\n:1\r\n",
            ":1\r\n:2\r\n",
            "?\r\n",
            "=2\r\nab\r\n",
            &"*1\r\n".repeat(DEPTH_MAX + 2),
        ] {
            let told = seen(broken.as_bytes(), false, "v.err");
            assert_eq!(told, (NO_REPLY.to_owned(), true), "{broken}");
        }
    }
}
