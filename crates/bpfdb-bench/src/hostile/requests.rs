//! Requests that are wrong, or never end.

use std::hint;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::attacker::{AttackState, Attacker, Done};

const PART: usize = 64 << 10;

/// The server is left alone.
pub(super) fn none(state: &AttackState<'_>) -> Result<()> {
    state.is_ready();
    state.wait_until_over();
    Ok(())
}

/// Nor is this an attack: it takes processor time, as each of the others does.
pub(super) fn busy(state: &AttackState<'_>) -> Result<()> {
    state.is_ready();
    while !state.is_over() {
        hint::spin_loop();
    }
    Ok(())
}

/// Counts and lengths that no request has.
pub(super) fn too_large(state: &AttackState<'_>) -> Result<()> {
    broken(
        state,
        &[
            "*2147483648\r\n",
            "*99999999999999999999999\r\n",
            "*2\r\n$3\r\nGET\r\n$536870913\r\n",
            "*2\r\n$3\r\nGET\r\n$99999999999999999999999\r\n",
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4294967295\r\n",
        ],
    )
}

/// The last one is a thousand requests without anything, which have no reply, and
/// then a length.
pub(super) fn negative(state: &AttackState<'_>) -> Result<()> {
    let nothing = "*-1\r\n".repeat(1000) + "*1\r\n$-1\r\n";
    broken(
        state,
        &[
            "*2\r\n$3\r\nGET\r\n$-1\r\n",
            "*2\r\n$-3\r\nGET\r\n",
            "*2\r\n$3\r\nGET\r\n$-9223372036854775809\r\n",
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$-2147483648\r\n",
            &nothing,
        ],
    )
}

/// Says one of them on each new connection, and waits for the error.
fn broken(state: &AttackState<'_>, requests: &[&str]) -> Result<()> {
    state.is_ready();
    for request in requests.iter().cycle() {
        if state.is_over() {
            break;
        }
        let mut attacker = state.connect()?;
        if attacker.send(request.as_bytes()) {
            attacker.wait_for_reply();
        }
    }
    Ok(())
}

/// Beginnings of requests.
pub(super) fn halves() -> [Vec<u8>; 6] {
    let long = "*3\r\n$3\r\nSET\r\n$1\r\nh\r\n$9000\r\n".to_owned() + &"x".repeat(2000);
    [
        "*",
        "*2\r\n$3\r\nGET\r\n$10\r\nabc",
        "*3\r\n$3\r\nSET\r\n$1\r\nh\r\n",
        "PIN",
        "*4\r\n$3\r\nSET\r\n$1\r\nh\r\n$1\r\nx\r\n$2\r",
        &long,
    ]
    .map(|text| text.as_bytes().to_owned())
}

pub(super) fn truncated(state: &AttackState<'_>) -> Result<()> {
    state.is_ready();
    for half in halves().iter().cycle() {
        if state.is_over() {
            break;
        }
        state.connect()?.send(half);
    }
    Ok(())
}

/// The longest argument that there may be.
const LONGEST: usize = 512 << 20;
const HEADER: &[u8] = b"*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n$536870912\r\n";

/// Comes in bits: 16 KiB every millisecond.
pub(super) fn endless_trickle(state: &AttackState<'_>) -> Result<()> {
    const BIT: [u8; 16 << 10] = [b'x'; 16 << 10];
    let mut attacker = state.connect()?;
    state.is_ready();
    attacker.send(HEADER);
    while attacker.send(&BIT) {
        thread::sleep(Duration::from_millis(1));
    }
    state.wait_until_over();
    Ok(())
}

/// Comes as fast as it is taken, and is given up one byte before its end; again
/// and again.
pub(super) fn endless(state: &AttackState<'_>) -> Result<()> {
    let part = [b'x'; PART];
    state.is_ready();
    while !state.is_over() {
        let mut attacker = state.connect()?;
        let mut left = LONGEST - 1;
        let mut taken = attacker.send(HEADER);
        while taken && left > 0 {
            let next = left.min(PART);
            taken = attacker.send(&part[..next]);
            left -= next;
        }
    }
    Ok(())
}

/// Lines that are no commands, as fast as they are answered; the replies are read.
pub(super) fn garbage(state: &AttackState<'_>) -> Result<()> {
    let lines = b"garbage and nothing but garbage\r\n".repeat(PART / 33);
    state.is_ready();
    while !state.is_over() {
        say_and_listen(state, state.connect()?, &lines)?;
    }
    Ok(())
}

/// Until the server closes, or all is over.
fn say_and_listen(state: &AttackState<'_>, mut attacker: Attacker<'_>, lines: &[u8]) -> Result<()> {
    let mut buffer = vec![0; PART];
    let mut sent = 0;
    attacker.never_wait()?;
    while !state.is_over() {
        attacker.wait_for_anything()?;
        let said = attacker.send_some(&lines[sent..]);
        if let Done::Some(more) = said {
            sent = (sent + more) % lines.len();
        }
        let heard = attacker.receive(&mut buffer);
        if said == Done::Closed || heard == Done::Closed {
            break;
        }
    }
    Ok(())
}
