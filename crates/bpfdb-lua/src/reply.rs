//! Replies: what a command says to a script, and a script to its client.
//!
//! ```text
//!  command ── RESP ──► Reply ──► value of Lua          value of Lua ──► Reply ──► client
//!             parse()           to_lua()                          from_lua()
//! ```
//!
//! Which value stands for which reply: <https://redis.io/docs/latest/develop/interact/programmability/lua-api/>

use mlua::{Lua, Table, Value};

use crate::number;

/// A reply, of any protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Nil,
    Integer(i64),
    Bulk(Vec<u8>),
    Status(Vec<u8>),
    /// With its code, without the line's end.
    Error(Vec<u8>),
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    Set(Vec<Reply>),
    Double(f64),
    Boolean(bool),
    /// An integer of any length, in digits.
    BigNumber(Vec<u8>),
    /// Text for people, with its format of three letters.
    Verbatim(Vec<u8>, Vec<u8>),
}

/// How deep replies may lie in each other: Lua's own stack has no more room in Redis.
const DEPTH_MAX: usize = 1000;

// ---- From RESP ---------------------------------------------------------------------

/// Reads the one reply that a command has written, in either protocol; `None` if these bytes
/// are no reply.
pub(crate) fn parse(bytes: &[u8]) -> Option<Reply> {
    let mut rest = bytes;
    let reply = parse_one(&mut rest, 0)?;
    rest.is_empty().then_some(reply)
}

fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    Some(line)
}

fn integer(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Bytes of this length, and the end of their line.
fn counted(rest: &mut &[u8], len: usize) -> Option<Vec<u8>> {
    let (bytes, behind) = rest.split_at_checked(len)?;
    *rest = behind.strip_prefix(b"\r\n")?;
    Some(bytes.to_vec())
}

fn several(rest: &mut &[u8], count: usize, depth: usize) -> Option<Vec<Reply>> {
    (0..count).map(|_| parse_one(rest, depth + 1)).collect()
}

fn parse_one(rest: &mut &[u8], depth: usize) -> Option<Reply> {
    if depth > DEPTH_MAX {
        return None;
    }
    let line = line(rest)?;
    let (&kind, text) = line.split_first()?;
    let len = || usize::try_from(integer(text)?).ok();
    Some(match kind {
        b'+' => Reply::Status(text.to_vec()),
        b'-' => Reply::Error(text.to_vec()),
        b':' => Reply::Integer(integer(text)?),
        b'_' => Reply::Nil,
        b'$' | b'*' if text == b"-1" => Reply::Nil,
        b'$' => Reply::Bulk(counted(rest, len()?)?),
        b'*' | b'>' => Reply::Array(several(rest, len()?, depth)?),
        b'~' => Reply::Set(several(rest, len()?, depth)?),
        b'%' => {
            let flat = several(rest, len()?.checked_mul(2)?, depth)?;
            let mut flat = flat.into_iter();
            let pairs = std::iter::from_fn(|| flat.next().zip(flat.next()));
            Reply::Map(pairs.collect())
        }
        b',' => Reply::Double(std::str::from_utf8(text).ok()?.parse().ok()?),
        b'#' => Reply::Boolean(text == b"t"),
        b'(' => Reply::BigNumber(text.to_vec()),
        b'=' => {
            let text = counted(rest, len()?)?;
            let (format, text) = text.split_at_checked(4)?;
            Reply::Verbatim(format[..3].to_vec(), text.to_vec())
        }
        _ => return None,
    })
}

// ---- To Lua ------------------------------------------------------------------------

impl Reply {
    /// The value that a script sees, which may have asked for RESP3.
    pub(crate) fn into_lua(self, lua: &Lua, resp3: bool) -> mlua::Result<Value> {
        let table = |name: &str, value: Value| -> mlua::Result<Value> {
            let table = lua.create_table_with_capacity(0, 1)?;
            table.raw_set(name, value)?;
            Ok(Value::Table(table))
        };
        let string = |bytes: Vec<u8>| lua.create_string(bytes).map(Value::String);
        match self {
            Self::Nil if resp3 => Ok(Value::Nil),
            // To be told from the end of an array.
            Self::Nil => Ok(Value::Boolean(false)),
            Self::Integer(value) => Ok(Value::Number(value as f64)),
            Self::Bulk(bytes) => string(bytes),
            Self::Status(text) => table("ok", string(text)?),
            Self::Error(text) => {
                let error = lua.create_table_with_capacity(0, 2)?;
                error.raw_set("err", string(text)?)?;
                error.raw_set("ignore_error_stats_update", true)?;
                Ok(Value::Table(error))
            }
            Self::Array(all) => {
                let array = lua.create_table_with_capacity(all.len(), 0)?;
                for (place, one) in all.into_iter().enumerate() {
                    array.raw_set(place + 1, one.into_lua(lua, resp3)?)?;
                }
                Ok(Value::Table(array))
            }
            Self::Map(pairs) => {
                let map = lua.create_table_with_capacity(0, pairs.len())?;
                for (key, value) in pairs {
                    map.raw_set(key.into_lua(lua, resp3)?, value.into_lua(lua, resp3)?)?;
                }
                table("map", Value::Table(map))
            }
            Self::Set(all) => {
                let set = lua.create_table_with_capacity(0, all.len())?;
                for one in all {
                    set.raw_set(one.into_lua(lua, resp3)?, true)?;
                }
                table("set", Value::Table(set))
            }
            Self::Double(value) => table("double", Value::Number(value)),
            Self::Boolean(value) => Ok(Value::Boolean(value)),
            Self::BigNumber(digits) => table("big_number", string(digits)?),
            Self::Verbatim(format, text) => {
                let verbatim = lua.create_table_with_capacity(0, 2)?;
                verbatim.raw_set("format", string(format)?)?;
                verbatim.raw_set("string", string(text)?)?;
                table("verbatim_string", Value::Table(verbatim))
            }
        }
    }
}

// ---- Lines -------------------------------------------------------------------------

/// A text as Redis takes it from C, of which a zero is the end.
pub(crate) fn until_zero(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| *byte == 0);
    &text[..end.unwrap_or(text.len())]
}

/// The error that `redis.error_reply` makes of a text: its first word is the code, or ERR if there
/// is no other word. One minus in front is left out, and ends of lines around the message.
pub(crate) fn error_text(text: &[u8]) -> Vec<u8> {
    let text = until_zero(text);
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let end = text.iter().rposition(|byte| !ends_line(byte));
    let text = &text[..end.map_or(0, |last| last + 1)];
    let (code, message) = match text.iter().position(|byte| *byte == b' ') {
        Some(space) => text.split_at(space + 1),
        None => (&b"ERR "[..], text),
    };
    let begin = message.iter().position(|byte| !ends_line(byte));
    let message = &message[begin.unwrap_or(message.len())..];
    [code, message].concat()
}

fn ends_line(byte: &u8) -> bool {
    b"\r\n".contains(byte)
}

// ---- From Lua ----------------------------------------------------------------------

/// What a script returned cannot be replied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// A table holds itself, or nearly.
    TooDeep,
    /// It has more bytes than it may. What stands in several places comes out as often.
    TooLong,
}

/// Bytes that a part of a reply takes, at least.
const PART_BYTES: usize = size_of::<Reply>();

/// Turns what a script returns into a reply.
pub(crate) struct FromLua {
    /// Did the script ask for RESP3? Then its booleans are some.
    pub(crate) resp3: bool,
    /// Bytes that the reply may still take.
    pub(crate) bytes_left: usize,
}

impl FromLua {
    pub(crate) fn reply(&mut self, value: &Value) -> Result<Reply, Unfit> {
        self.at_depth(value, 0)
    }

    fn at_depth(&mut self, value: &Value, depth: usize) -> Result<Reply, Unfit> {
        if depth > DEPTH_MAX {
            return Err(Unfit::TooDeep);
        }
        self.take(PART_BYTES)?;
        Ok(match value {
            Value::String(text) => Reply::Bulk(self.copy(&text.as_bytes())?),
            Value::Integer(value) => Reply::Integer(*value),
            Value::Number(value) => Reply::Integer(number::truncate(*value)),
            Value::Boolean(value) if self.resp3 => Reply::Boolean(*value),
            Value::Boolean(true) => Reply::Integer(1),
            Value::Table(table) => self.table(table, depth)?,
            _ => Reply::Nil,
        })
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<Reply, Unfit> {
        let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
        if let Value::String(text) = field("err") {
            return Ok(Reply::Error(self.copy(until_zero(&text.as_bytes()))?));
        }
        if let Value::String(text) = field("ok") {
            return Ok(Reply::Status(self.copy(until_zero(&text.as_bytes()))?));
        }
        match field("double") {
            Value::Number(value) => return Ok(Reply::Double(value)),
            Value::Integer(value) => return Ok(Reply::Double(value as f64)),
            _ => {}
        }
        if let Value::Table(map) = field("map") {
            let mut pairs = Vec::new();
            for pair in map.pairs::<Value, Value>() {
                let (key, value) = pair.map_err(|_| Unfit::TooLong)?;
                pairs.push((
                    self.at_depth(&key, depth + 1)?,
                    self.at_depth(&value, depth + 1)?,
                ));
            }
            return Ok(Reply::Map(pairs));
        }
        if let Value::Table(set) = field("set") {
            let mut all = Vec::new();
            for pair in set.pairs::<Value, Value>() {
                let (key, _) = pair.map_err(|_| Unfit::TooLong)?;
                all.push(self.at_depth(&key, depth + 1)?);
            }
            return Ok(Reply::Set(all));
        }
        if let Value::String(digits) = field("big_number") {
            return Ok(Reply::BigNumber(self.copy(&digits.as_bytes())?));
        }
        if let Value::Table(verbatim) = field("verbatim_string") {
            let part = |name: &str| match verbatim.raw_get(name) {
                Ok(Value::String(text)) => Some(text),
                _ => None,
            };
            if let (Some(format), Some(text)) = (part("format"), part("string")) {
                let mut format = self.copy(&format.as_bytes())?;
                format.resize(3, b' ');
                return Ok(Reply::Verbatim(format, self.copy(&text.as_bytes())?));
            }
        }
        self.array(table, depth)
    }

    fn take(&mut self, bytes: usize) -> Result<(), Unfit> {
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(Unfit::TooLong)?;
        Ok(())
    }

    fn copy(&mut self, text: &[u8]) -> Result<Vec<u8>, Unfit> {
        self.take(text.len())?;
        Ok(text.to_vec())
    }

    /// Up to the first place where nothing is.
    fn array(&mut self, table: &Table, depth: usize) -> Result<Reply, Unfit> {
        let mut all = Vec::new();
        loop {
            let value = table.raw_get(all.len() + 1).unwrap_or(Value::Nil);
            if value.is_nil() {
                return Ok(Reply::Array(all));
            }
            all.push(self.at_depth(&value, depth + 1)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.into())
    }

    #[test]
    fn replies_of_both_protocols_are_read() {
        assert_eq!(parse(b"+OK\r\n"), Some(Reply::Status(b"OK".to_vec())));
        assert_eq!(parse(b"$-1\r\n"), Some(Reply::Nil));
        assert_eq!(parse(b"_\r\n"), Some(Reply::Nil));
        assert_eq!(parse(b":-7\r\n"), Some(Reply::Integer(-7)));
        assert_eq!(parse(b"$4\r\na\r\nb\r\n"), Some(bulk("a\r\nb")));
        let array = parse(b"*2\r\n*0\r\n$1\r\na\r\n");
        assert_eq!(
            array,
            Some(Reply::Array(vec![Reply::Array(vec![]), bulk("a")]))
        );
        let map = parse(b"%1\r\n$1\r\na\r\n,1.5\r\n");
        assert_eq!(map, Some(Reply::Map(vec![(bulk("a"), Reply::Double(1.5))])));
        let text = Reply::Verbatim(b"txt".to_vec(), b"hello".to_vec());
        assert_eq!(parse(b"=9\r\ntxt:hello\r\n"), Some(text));
        for broken in [
            "",
            "+OK",
            "$3\r\nab\r\n",
            "*2\r\n:1\r\n",
            ":1\r\n:2\r\n",
            "?\r\n",
        ] {
            assert_eq!(parse(broken.as_bytes()), None, "{broken}");
        }
    }

    fn returned(code: &str, resp3: bool) -> Result<Reply, Unfit> {
        let lua = Lua::new();
        let value: Value = lua.load(code).eval().expect("runs");
        let mut from = FromLua {
            resp3,
            bytes_left: 100 * PART_BYTES,
        };
        from.reply(&value)
    }

    #[test]
    fn what_a_script_returns() {
        let list = |all: Vec<Reply>| Ok(Reply::Array(all));
        assert_eq!(
            returned("return {1.9, -1.9, true, false, 'a', nil, 3}", false),
            list(vec![
                Reply::Integer(1),
                Reply::Integer(-1),
                Reply::Integer(1),
                Reply::Nil,
                bulk("a")
            ])
        );
        assert_eq!(returned("return false", true), Ok(Reply::Boolean(false)));
        assert_eq!(
            returned("return {err = '-MY error', ok = 'x'}", false),
            Ok(Reply::Error(b"-MY error".to_vec()))
        );
        assert_eq!(
            returned("return {err = 'MY\\000 error'}", false),
            Ok(Reply::Error(b"MY".to_vec()))
        );
        assert_eq!(
            returned("return {{ok = 'a\\000b'}, 'a\\000b'}", false),
            list(vec![Reply::Status(b"a".to_vec()), bulk("a\0b")])
        );
        assert_eq!(returned("return {ok = 1}", false), list(vec![]));
        assert_eq!(
            returned("return {double = 3}", false),
            Ok(Reply::Double(3.0))
        );
        assert_eq!(
            returned("return {map = {a = 1}}", false),
            Ok(Reply::Map(vec![(bulk("a"), Reply::Integer(1))]))
        );
        assert_eq!(returned("return function() end", false), Ok(Reply::Nil));
        assert_eq!(returned("return 0/0", false), Ok(Reply::Integer(i64::MIN)));
    }

    /// As Redis 7.0 replies.
    #[test]
    fn errors_that_are_made_of_texts() {
        for (given, made) in [
            ("x", "ERR x"),
            ("-x", "ERR x"),
            ("-x y", "x y"),
            ("--x y", "-x y"),
            ("", "ERR "),
            ("-", "ERR "),
            (" ", " "),
            ("- x", " x"),
            ("x ", "x "),
            ("a\0b c", "ERR a"),
            ("a b\0c", "a b"),
            ("\0a b", "ERR "),
            ("a\nb", "ERR a\nb"),
            ("a b\r\n", "a b"),
            ("a\r\n b", "a\r\n b"),
            ("-\nx", "ERR x"),
            ("\n\na b", "\n\na b"),
            ("a \n\nb\n c\n", "a b\n c"),
            (" \n", " "),
        ] {
            assert_eq!(error_text(given.as_bytes()), made.as_bytes(), "{given:?}");
        }
    }

    #[test]
    fn what_has_no_end_is_refused() {
        assert_eq!(
            returned("local t = {} t[1] = t return t", false),
            Err(Unfit::TooLong)
        );
        let lua = Lua::new();
        let value: Value = lua
            .load("local t = {} t[1] = t return t")
            .eval()
            .expect("runs");
        let mut from = FromLua {
            resp3: false,
            bytes_left: usize::MAX,
        };
        assert_eq!(from.reply(&value), Err(Unfit::TooDeep));
    }
}
