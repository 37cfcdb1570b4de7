//! Connections in number, and those that do not read.

use std::thread;

use anyhow::{Result, ensure};

use super::front::{Attacker, Done, Front};
use super::requests::halves;

/// Connects, is answered once, and resets; again and again.
pub(super) fn churn(front: &Front<'_>) -> Result<()> {
    front.is_ready();
    while !front.is_over() {
        let mut attacker = front.connect()?;
        if attacker.send(b"*1\r\n$4\r\nPING\r\n") {
            attacker.wait_for_reply();
        }
    }
    Ok(())
}

pub(super) fn half_open(front: &Front<'_>) -> Result<()> {
    hold(front, &halves())
}

pub(super) fn idle(front: &Front<'_>) -> Result<()> {
    hold(front, &[Vec::new()])
}

/// Opens many connections, says one of these on each, and then nothing.
fn hold(front: &Front<'_>, beginnings: &[Vec<u8>]) -> Result<()> {
    let mut attackers = Vec::new();
    for beginning in beginnings
        .iter()
        .cycle()
        .take(front.plan.attack_connections as usize)
    {
        let mut attacker = front.connect()?;
        ensure!(attacker.send(beginning), "a connection was closed");
        attackers.push(attacker);
    }
    front.is_ready();
    front.wait_until_over();
    Ok(())
}

pub(super) fn slow_readers(front: &Front<'_>) -> Result<()> {
    slow(front, 48 << 10)
}

pub(super) fn slow_readers_of_large(front: &Front<'_>) -> Result<()> {
    slow(front, 1 << 20)
}

const READERS: usize = 64;
/// They ask in so many steps, spread over the time.
const STEPS: u32 = 32;

/// Clients that ask for a long value in pipelines and read nothing.
fn slow(front: &Front<'_>, size: usize) -> Result<()> {
    store(front, size)?;
    let each = (front.plan.attack_replies / READERS / STEPS as usize).div_ceil(size);
    let requests = b"*2\r\n$3\r\nGET\r\n$4\r\nlong\r\n".repeat(each);
    let mut readers: Vec<_> = (0..READERS)
        .map(|_| front.connect())
        .collect::<Result<_>>()?;
    for reader in &readers {
        reader.never_wait()?;
    }
    front.is_ready();
    for _ in 0..STEPS {
        // One that is closed is replaced by no other.
        readers.retain_mut(|reader| reader.send_some(&requests) != Done::Closed);
        thread::sleep(front.plan.attack_time / STEPS);
    }
    front.wait_until_over();
    Ok(())
}

fn store(front: &Front<'_>, size: usize) -> Result<()> {
    let mut attacker: Attacker<'_> = front.connect()?;
    let mut request = format!("*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n${size}\r\n").into_bytes();
    request.resize(request.len() + size, b'x');
    request.extend_from_slice(b"\r\n");
    ensure!(attacker.send(&request), "the connection was closed");
    attacker.wait_for_reply();
    Ok(())
}
