//! Replies to simple queries that the proxy makes itself.

use bytes::{BufMut, BytesMut};

use super::reply::{message, text};

/// A type of PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Int4,
    Int8,
    Numeric,
    Bytes,
}

impl Kind {
    /// Its number, and its length in bytes; -1: any.
    fn code(self) -> (u32, i16) {
        match self {
            Self::Text => (25, -1),
            Self::Int4 => (23, 4),
            Self::Int8 => (20, 8),
            Self::Numeric => (1700, -1),
            Self::Bytes => (17, -1),
        }
    }
}

pub(crate) type Column = (&'static str, Kind);
/// `None`: NULL.
pub(crate) type Row = Vec<Option<String>>;

pub(crate) fn description(out: &mut BytesMut, columns: &[Column]) {
    message(out, b'T', |out| {
        out.put_u16(columns.len() as u16);
        for (name, kind) in columns {
            let (number, length) = kind.code();
            text(out, name.as_bytes());
            // Of no table.
            out.put_u32(0);
            out.put_u16(0);
            out.put_u32(number);
            out.put_i16(length);
            // No modifier; as text.
            out.put_i32(-1);
            out.put_u16(0);
        }
    });
}

pub(crate) fn row(out: &mut BytesMut, values: &[Option<String>]) {
    message(out, b'D', |out| {
        out.put_u16(values.len() as u16);
        for value in values {
            match value {
                Some(value) => {
                    out.put_u32(value.len() as u32);
                    out.put_slice(value.as_bytes());
                }
                None => out.put_i32(-1),
            }
        }
    });
}

/// CommandComplete.
pub(crate) fn complete(out: &mut BytesMut, tag: &str) {
    message(out, b'C', |out| text(out, tag.as_bytes()));
}

fn fields(out: &mut BytesMut, kind: u8, all: &[(u8, &str)]) {
    message(out, kind, |out| {
        for (field, value) in all {
            out.put_u8(*field);
            text(out, value.as_bytes());
        }
        out.put_u8(0);
    });
}

/// ErrorResponse after which the session goes on.
pub(crate) fn error(out: &mut BytesMut, state: &str, told: &str) {
    let all = [
        (b'S', "ERROR"),
        (b'V', "ERROR"),
        (b'C', state),
        (b'M', told),
    ];
    fields(out, b'E', &all);
}

/// NoticeResponse.
pub(crate) fn notice(out: &mut BytesMut, told: &str, detail: &str) {
    let all = [
        (b'S', "NOTICE"),
        (b'V', "NOTICE"),
        (b'C', "00000"),
        (b'M', told),
        (b'D', detail),
    ];
    fields(out, b'N', &all);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_the_protocol_has_them() {
        let mut out = BytesMut::new();
        description(&mut out, &[("a", Kind::Int4)]);
        row(&mut out, &[Some("7".into()), None]);
        complete(&mut out, "SHOW");
        let wanted = [
            &b"T\0\0\0\x1a\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0"[..],
            b"D\0\0\0\x0f\0\x02\0\0\0\x017\xff\xff\xff\xff",
            b"C\0\0\0\x09SHOW\0",
        ];
        assert_eq!(out, wanted.concat());
    }
}
