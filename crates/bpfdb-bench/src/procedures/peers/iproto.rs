//! Tarantool's binary protocol: calls, and what comes back. A packet is its length, a header and
//! a body, in MessagePack; both are maps whose keys are numbers.
//!
//! ```text
//!  length │ {type: CALL, sync: n} │ {function name: "vote", tuple: [602, 7, …]}
//!  length │ {type: 0,    sync: n, schema version: 80} │ {data: [0]}
//! ```
//!
//! The server returns a request's sync with the reply. Ours says of which kind the request was.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::{Context, Result, bail, ensure};
use rmp::{decode, encode};

use crate::tcp::Replies;

/// What the server says of itself to a new connection.
pub(super) const GREETING: usize = 128;

const TYPE: u64 = 0x00;
const SYNC: u64 = 0x01;
const TUPLE: u64 = 0x21;
const FUNCTION_NAME: u64 = 0x22;
const DATA: u64 = 0x30;
const ERROR: u64 = 0x31;

const CALL: u64 = 0x0a;
const OK: u64 = 0;

/// A number of 32 bits: how a length is written, and always by the server.
const LENGTH_MARKER: u8 = 0xce;
const LENGTH: usize = 5;
const NIL: u8 = 0xc0;

/// The first value that a procedure returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Nil,
    Number(i64),
    /// A tuple, a list or a text.
    Other,
}

/// Adds a request of the kind `sync`.
pub(super) fn call(to: &mut Vec<u8>, sync: u64, function: &str, arguments: &[i64]) {
    let start = to.len();
    to.extend_from_slice(&[LENGTH_MARKER, 0, 0, 0, 0]);
    write(to, sync, function, arguments).expect("a vector takes in everything");
    let length = (to.len() - start - LENGTH) as u32;
    to[start + 1..start + LENGTH].copy_from_slice(&length.to_be_bytes());
}

fn write(to: &mut Vec<u8>, sync: u64, function: &str, arguments: &[i64]) -> Result<()> {
    encode::write_map_len(to, 2)?;
    for number in [TYPE, CALL, SYNC, sync] {
        encode::write_uint(to, number)?;
    }
    encode::write_map_len(to, 2)?;
    encode::write_uint(to, FUNCTION_NAME)?;
    encode::write_str(to, function)?;
    encode::write_uint(to, TUPLE)?;
    encode::write_array_len(to, arguments.len() as u32)?;
    for &argument in arguments {
        encode::write_sint(to, argument)?;
    }
    Ok(())
}

/// What a reply adds to what [`Gained`] sums up, by the kind of its request.
pub(super) type Gain = fn(u64, Value) -> i64;

/// Over the replies of all connections.
#[derive(Clone, Debug)]
pub(super) struct Gained {
    pub(super) totals: Arc<Totals>,
    gain: Gain,
}

#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) sum: AtomicI64,
    /// Replies that have added to it, or taken from it.
    pub(super) changes: AtomicI64,
}

impl Gained {
    pub(super) fn new(gain: Gain) -> Self {
        let totals = Arc::default();
        Self { totals, gain }
    }
}

/// Replies of a connection.
#[derive(Debug)]
pub(super) struct Packets {
    /// The beginning of a packet.
    rest: Vec<u8>,
    gained: Gained,
}

impl Packets {
    pub(super) fn new(gained: Gained) -> Self {
        let rest = Vec::new();
        Self { rest, gained }
    }
}

impl Replies for Packets {
    const GREETING: usize = GREETING;

    fn count(&mut self, bytes: &[u8]) -> Result<usize> {
        self.rest.extend_from_slice(bytes);
        let (mut replies, mut gained, mut changes) = (0, 0, 0);
        let mut left = self.rest.as_slice();
        while let Some(packet) = next(&mut left)? {
            let (sync, values) = reply(packet)?;
            let gain = (self.gained.gain)(sync, first(values));
            gained += gain;
            changes += i64::from(gain != 0);
            replies += 1;
        }
        let done = self.rest.len() - left.len();
        self.rest.drain(..done);
        let totals = &self.gained.totals;
        totals.sum.fetch_add(gained, Ordering::Relaxed);
        totals.changes.fetch_add(changes, Ordering::Relaxed);
        Ok(replies)
    }
}

/// Takes a packet away from the beginning, if it has come as a whole.
fn next<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>> {
    let Some((head, rest)) = bytes.split_first_chunk::<LENGTH>() else {
        return Ok(None);
    };
    let [marker, length @ ..] = *head;
    ensure!(marker == LENGTH_MARKER, "no length of a packet: {head:?}");
    let Some((packet, rest)) = rest.split_at_checked(u32::from_be_bytes(length) as usize) else {
        return Ok(None);
    };
    *bytes = rest;
    Ok(Some(packet))
}

/// Of a packet: the sync of the request, and the values, as MessagePack.
fn reply(mut packet: &[u8]) -> Result<(u64, &[u8])> {
    let rest = &mut packet;
    let (mut status, mut sync) = (OK, 0);
    for _ in 0..decode::read_map_len(rest)? {
        let (key, value) = (number(rest)?, number(rest)?);
        match key {
            TYPE => status = value,
            SYNC => sync = value,
            _ => {}
        }
    }
    let entries = decode::read_map_len(rest).context("a body")?;
    ensure!(entries > 0, "a reply without a body");
    let key = number(rest)?;
    if status != OK {
        ensure!(key == ERROR, "error {status}");
        let length = decode::read_str_len(rest)? as usize;
        let text = rest.get(..length).unwrap_or_default();
        bail!("a reply: {}", String::from_utf8_lossy(text));
    }
    ensure!(key == DATA, "a reply without data");
    Ok((sync, rest))
}

fn number(from: &mut &[u8]) -> Result<u64> {
    decode::read_int(from).context("a number")
}

/// Of an array.
fn first(mut values: &[u8]) -> Value {
    match decode::read_array_len(&mut values) {
        Ok(0) | Err(_) => Value::Nil,
        Ok(_) if values.first() == Some(&NIL) => Value::Nil,
        Ok(_) => decode::read_int(&mut values).map_or(Value::Other, Value::Number),
    }
}

/// All values of a reply, which are numbers: `bytes` is one packet with its length.
pub(super) fn numbers(mut bytes: &[u8]) -> Result<Vec<i64>> {
    let packet = next(&mut bytes)?.context("a packet")?;
    let (_, mut values) = reply(packet)?;
    let count = decode::read_array_len(&mut values)?;
    let number = |_| decode::read_int(&mut values).context("a number");
    (0..count).map(number).collect()
}

/// How long the packet is that begins so.
pub(super) fn length(head: [u8; LENGTH]) -> usize {
    let [_, length @ ..] = head;
    u32::from_be_bytes(length) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `sync`, with these values.
    fn answer(sync: u8, values: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x83, 0x00, 0xce, 0, 0, 0, 0, 0x01, 0xcf];
        packet.extend_from_slice(&u64::from(sync).to_be_bytes());
        packet.extend_from_slice(&[0x05, 0xce, 0, 0, 0, 80, 0x81, 0x30]);
        packet.extend_from_slice(values);
        with_length(&packet)
    }

    fn with_length(packet: &[u8]) -> Vec<u8> {
        let length = (packet.len() as u32).to_be_bytes();
        [&[LENGTH_MARKER], &length[..], packet].concat()
    }

    fn packets() -> Packets {
        let gain = |sync, value| match value {
            Value::Number(number) => sync as i64 * number,
            _ => 0,
        };
        Packets::new(Gained::new(gain))
    }

    #[test]
    fn a_call_is_what_the_protocol_says() {
        let mut bytes = Vec::new();
        call(&mut bytes, 3, "vote", &[7, -300]);
        let expected =
            b"\xce\x00\x00\x00\x12\x82\x00\x0a\x01\x03\x82\x22\xa4vote\x21\x92\x07\xd1\xfe\xd4";
        assert_eq!(bytes, expected);
    }

    #[test]
    fn packets_in_pieces_are_counted_once() {
        let mut packets = packets();
        let all = [
            answer(2, &[0x91, 0x05]),
            answer(1, &[0x91, 0xc0]),
            answer(1, &[0x91, 0xd1, 0xfe, 0xd4]),
        ]
        .concat();
        let mut counted = 0;
        for piece in all.chunks(7) {
            counted += packets.count(piece).expect("packets");
        }
        assert_eq!(counted, 3);
        let totals = Arc::into_inner(packets.gained.totals).expect("one owner");
        assert_eq!(totals.sum.into_inner(), 2 * 5 - 300);
        assert_eq!(totals.changes.into_inner(), 2);
    }

    #[test]
    fn an_error_is_told() {
        let packet = b"\x82\x00\xcd\x80\x20\x01\x01\x81\x31\xa4oops";
        let error = packets().count(&with_length(packet)).expect_err("an error");
        assert!(error.to_string().contains("oops"), "{error}");
    }

    #[test]
    fn values_are_nil_numbers_or_others() {
        for (values, expected) in [
            (&[0x90][..], Value::Nil),
            (&[0x91, 0xc0], Value::Nil),
            (&[0x91, 0x00], Value::Number(0)),
            (&[0x91, 0x92, 0x01, 0x02], Value::Other),
        ] {
            assert_eq!(first(values), expected);
        }
        assert_eq!(numbers(&answer(1, &[0x92, 1, 2])).expect("two"), [1, 2]);
    }
}
