//! Messages that the proxy makes itself.

use bytes::{BufMut, BytesMut};

/// States of SQL that the proxy reports: those PostgreSQL has for the same.
pub(crate) mod state {
    pub(crate) const SUCCESSFUL_COMPLETION: &str = "00000";
    pub(crate) const PROTOCOL_VIOLATION: &str = "08P01";
    pub(crate) const CONNECTION_FAILURE: &str = "08006";
    pub(crate) const FEATURE_NOT_SUPPORTED: &str = "0A000";
    pub(crate) const INVALID_AUTHORIZATION: &str = "28000";
    pub(crate) const QUERY_CANCELED: &str = "57014";
    pub(crate) const IDLE_IN_TRANSACTION: &str = "25P03";
    pub(crate) const TRANSACTION_TIMEOUT: &str = "25P04";
    pub(crate) const IDLE_SESSION: &str = "57P05";
    pub(crate) const INVALID_PASSWORD: &str = "28P01";
    pub(crate) const INVALID_CATALOG: &str = "3D000";
    pub(crate) const TOO_MANY_CONNECTIONS: &str = "53300";
    pub(crate) const LIMIT_EXCEEDED: &str = "54000";
    pub(crate) const ADMIN_SHUTDOWN: &str = "57P01";
}

/// A message whose body `write` appends.
pub(crate) fn message(out: &mut BytesMut, kind: u8, write: impl FnOnce(&mut BytesMut)) {
    out.put_u8(kind);
    let at = out.len();
    out.put_u32(0);
    write(out);
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

pub(super) fn text(out: &mut BytesMut, bytes: &[u8]) {
    out.put_slice(bytes);
    out.put_u8(0);
}

/// ErrorResponse that ends the connection.
pub(crate) fn fatal(out: &mut BytesMut, state: &str, told: &str) {
    report(out, b'E', "FATAL", state, told);
}

/// NoticeResponse.
pub(crate) fn notice(out: &mut BytesMut, told: &str) {
    report(out, b'N', "NOTICE", state::SUCCESSFUL_COMPLETION, told);
}

fn report(out: &mut BytesMut, kind: u8, severity: &str, state: &str, told: &str) {
    message(out, kind, |out| {
        for (field, value) in [
            (b'S', severity),
            (b'V', severity),
            (b'C', state),
            (b'M', told),
        ] {
            out.put_u8(field);
            text(out, value.as_bytes());
        }
        out.put_u8(0);
    });
}

pub(crate) fn parameter(out: &mut BytesMut, name: &str, value: &str) {
    message(out, b'S', |out| {
        text(out, name.as_bytes());
        text(out, value.as_bytes());
    });
}

/// The key by which a client cancels.
pub(crate) fn key(out: &mut BytesMut, process: i32, secret: i32) {
    message(out, b'K', |out| {
        out.put_i32(process);
        out.put_i32(secret);
    });
}

/// Ready for a query, in no transaction.
pub(crate) fn ready(out: &mut BytesMut) {
    message(out, b'Z', |out| out.put_u8(b'I'));
}

/// We know version 3.0, and none of these options of a newer one.
pub(crate) fn negotiate(out: &mut BytesMut, unknown: &[Vec<u8>]) {
    message(out, b'v', |out| {
        out.put_u32(0);
        out.put_u32(unknown.len() as u32);
        unknown.iter().for_each(|name| text(out, name));
    });
}

/// To a server: a query with one parameter, as a batch of its own.
pub(crate) fn question(out: &mut BytesMut, query: &str, parameter: &str) {
    message(out, b'P', |out| {
        text(out, b"");
        text(out, query.as_bytes());
        out.put_u16(0);
    });
    message(out, b'B', |out| {
        // No portal, no statement, no formats; a parameter; no formats of results.
        out.put_slice(b"\0\0\0\0\0\x01");
        out.put_u32(parameter.len() as u32);
        out.put_slice(parameter.as_bytes());
        out.put_u16(0);
    });
    message(out, b'E', |out| out.put_slice(b"\0\0\0\0\0"));
    message(out, b'S', |_| {});
}

/// A value of the body of a DataRow; `None`: it is null, or not there.
pub(crate) fn value(row: &[u8], column: usize) -> Option<&[u8]> {
    let mut rest = row.get(2..)?;
    for at in 0.. {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).ok();
        if at == column {
            return after.get(..length?);
        }
        rest = after.get(length.unwrap_or(0)..)?;
    }
    None
}

/// A request for authentication, or that it has succeeded.
pub(crate) fn authentication(out: &mut BytesMut, code: u32, more: &[u8]) {
    message(out, b'R', |out| {
        out.put_u32(code);
        out.put_slice(more);
    });
}
