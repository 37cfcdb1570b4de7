//! The first packets of a connection: without a type, at most [`PACKET_MAX`] bytes long.

use bytes::{BufMut, BytesMut};

use super::text;

/// As PostgreSQL has it (MAX_STARTUP_PACKET_LENGTH), bytes.
pub(crate) const PACKET_MAX: usize = 10_000;

const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;
const MAJOR: u32 = 3;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    /// TLS is wanted first.
    Tls,
    /// GSSAPI is.
    Gss,
    Cancel {
        process: i32,
        secret: i32,
    },
    /// Names with values, the minor version, and names of options of the protocol.
    Start {
        parameters: Vec<(String, String)>,
        minor: u32,
        options: Vec<Vec<u8>>,
    },
}

/// The packet that asks a server for TLS.
pub(crate) fn ask_for_tls(out: &mut BytesMut) {
    out.put_u32(8);
    out.put_u32(TLS);
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    Length,
    Version(u32),
    Body,
}

/// The packet at the beginning of `bytes` and its length; `None`: it is not whole yet.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Packet, usize)>, Malformed> {
    let Some(length) = number(bytes, 0) else {
        return Ok(None);
    };
    let length = length as usize;
    if !(8..=PACKET_MAX).contains(&length) {
        return Err(Malformed::Length);
    }
    if bytes.len() < length {
        return Ok(None);
    }
    let bytes = &bytes[..length];
    let code = number(bytes, 4).ok_or(Malformed::Length)?;
    let packet = match code {
        TLS => Packet::Tls,
        GSS => Packet::Gss,
        CANCEL => Packet::Cancel {
            process: number(bytes, 8).ok_or(Malformed::Body)? as i32,
            secret: number(bytes, 12).ok_or(Malformed::Body)? as i32,
        },
        version if version >> 16 == MAJOR => start(&bytes[8..], version & 0xffff)?,
        version => return Err(Malformed::Version(version)),
    };
    Ok(Some((packet, length)))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(word.try_into().ok()?))
}

fn start(mut body: &[u8], minor: u32) -> Result<Packet, Malformed> {
    let (mut parameters, mut options) = (Vec::new(), Vec::new());
    loop {
        let (name, rest) = text::split(body).ok_or(Malformed::Body)?;
        if name.is_empty() {
            return Ok(Packet::Start {
                parameters,
                minor,
                options,
            });
        }
        let (value, rest) = text::split(rest).ok_or(Malformed::Body)?;
        body = rest;
        if name.starts_with(b"_pq_.") {
            options.push(name.to_vec());
            continue;
        }
        let known = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Malformed::Body);
        parameters.push((known(name)?, known(value)?));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(code: u32, body: &[u8]) -> Vec<u8> {
        let length = 8 + body.len() as u32;
        [&length.to_be_bytes(), &code.to_be_bytes(), body].concat()
    }

    #[test]
    fn packets_are_told_apart() {
        let tls = packet(TLS, b"");
        assert_eq!(parse(&tls), Ok(Some((Packet::Tls, 8))));
        let cancel = packet(CANCEL, b"\0\0\0\x01\0\0\0\x02");
        let wanted = Packet::Cancel {
            process: 1,
            secret: 2,
        };
        assert_eq!(parse(&cancel), Ok(Some((wanted, 16))));
        let start = packet(3 << 16 | 1, b"user\0a\0_pq_.x\0y\0\0");
        let wanted = Packet::Start {
            parameters: vec![("user".into(), "a".into())],
            minor: 1,
            options: vec![b"_pq_.x".to_vec()],
        };
        assert_eq!(parse(&start), Ok(Some((wanted, start.len()))));
        assert_eq!(parse(&start[..start.len() - 1]), Ok(None));
    }

    #[test]
    fn what_is_no_packet_is_refused() {
        assert_eq!(parse(b"GET / HTTP/1.1"), Err(Malformed::Length));
        assert_eq!(
            parse(&packet(2 << 16, b"")),
            Err(Malformed::Version(2 << 16))
        );
        assert_eq!(parse(&packet(3 << 16, b"user\0a")), Err(Malformed::Body));
        assert_eq!(parse(&packet(CANCEL, b"")), Err(Malformed::Body));
    }
}
