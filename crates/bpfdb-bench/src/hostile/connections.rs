//! Attacks by many connections, and by clients that do not read.

use std::thread;

use anyhow::{Result, ensure};

use super::attacker::{AttackState, Attacker, Done};
use super::requests::halves;

/// Connects, is answered once, and resets; again and again.
pub(super) fn churn(state: &AttackState<'_>) -> Result<()> {
    state.is_ready();
    while !state.is_over() {
        let mut attacker = state.connect()?;
        if attacker.send(b"*1\r\n$4\r\nPING\r\n") {
            attacker.wait_for_reply();
        }
    }
    Ok(())
}

pub(super) fn half_open(state: &AttackState<'_>) -> Result<()> {
    hold(state, &halves())
}

pub(super) fn idle(state: &AttackState<'_>) -> Result<()> {
    hold(state, &[Vec::new()])
}

/// Opens many connections, says one of these on each, and then nothing.
fn hold(state: &AttackState<'_>, beginnings: &[Vec<u8>]) -> Result<()> {
    let mut attackers = Vec::new();
    for beginning in beginnings
        .iter()
        .cycle()
        .take(state.plan.attack_connections as usize)
    {
        let mut attacker = state.connect()?;
        ensure!(attacker.send(beginning), "a connection was closed");
        attackers.push(attacker);
    }
    state.is_ready();
    state.wait_until_over();
    Ok(())
}

pub(super) fn slow_readers(state: &AttackState<'_>) -> Result<()> {
    slow(state, 48 << 10)
}

pub(super) fn slow_readers_of_large(state: &AttackState<'_>) -> Result<()> {
    slow(state, 1 << 20)
}

const READERS: usize = 64;
/// They ask in so many steps, spread over the time.
const STEPS: u32 = 32;

/// Clients that ask for a long value in pipelines and read nothing.
fn slow(state: &AttackState<'_>, size: usize) -> Result<()> {
    store(state, size)?;
    let each = (state.plan.attack_replies / READERS / STEPS as usize).div_ceil(size);
    let requests = b"*2\r\n$3\r\nGET\r\n$4\r\nlong\r\n".repeat(each);
    let mut readers: Vec<_> = (0..READERS)
        .map(|_| state.connect())
        .collect::<Result<_>>()?;
    for reader in &readers {
        reader.never_wait()?;
    }
    state.is_ready();
    for _ in 0..STEPS {
        // One that is closed is replaced by no other.
        readers.retain_mut(|reader| reader.send_some(&requests) != Done::Closed);
        thread::sleep(state.plan.attack_time / STEPS);
    }
    state.wait_until_over();
    Ok(())
}

fn store(state: &AttackState<'_>, size: usize) -> Result<()> {
    let mut attacker: Attacker<'_> = state.connect()?;
    let mut request = format!("*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n${size}\r\n").into_bytes();
    request.resize(request.len() + size, b'x');
    request.extend_from_slice(b"\r\n");
    ensure!(attacker.send(&request), "the connection was closed");
    attacker.wait_for_reply();
    Ok(())
}
