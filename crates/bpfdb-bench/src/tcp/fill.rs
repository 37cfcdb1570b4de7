//! A client of our own, which fills a store.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::server::Server;
use crate::random::Random;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of requests that are sent before the replies are read.
const PIPELINE_BYTES: u32 = 32_000;
const SEED: u64 = 5;

/// How a server refuses a write until more of its log is on the disk.
pub(crate) const NO_ROOM: &str = "-ERR the log has no room";

/// Whether a server answers PING there.
pub(crate) fn answers(address: SocketAddr) -> bool {
    let ping = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
        let mut reply = [0; 7];
        stream.read_exact(&mut reply)?;
        Ok(&reply == b"+PONG\r\n")
    };
    ping().unwrap_or(false)
}

/// Sets every key that redis-benchmark -r `keys` may ask for.
pub(crate) fn fill(server: &Server, keys: u32, size: u32) -> Result<()> {
    let mut stream = server.connect()?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut replies = BufReader::new(stream.try_clone()?);
    let value = Random::new(SEED).text(size);
    let pipeline = 1 + PIPELINE_BYTES / (size + 64);

    for first in (0..keys).step_by(pipeline as usize) {
        let mut missing: Vec<u32> = (first..keys.min(first + pipeline)).collect();
        while !missing.is_empty() {
            let requests: String = missing.iter().map(|&n| set(n, &value)).collect();
            stream.write_all(requests.as_bytes())?;
            let all = std::mem::take(&mut missing);
            for n in all {
                if !is_set(server, &mut replies, n)? {
                    missing.push(n);
                }
            }
        }
    }
    Ok(())
}

/// Reads the reply to the SET of key `n`: false if the log has no room for it yet.
fn is_set(server: &Server, replies: &mut impl BufRead, n: u32) -> Result<bool> {
    let mut reply = String::new();
    replies
        .read_line(&mut reply)
        .with_context(|| format!("{}: reply to the SET of key {n}", server.name))?;
    if reply != "+OK\r\n" && !reply.starts_with(NO_ROOM) {
        bail!("{}: SET of key {n}: {reply}", server.name);
    }
    Ok(reply.starts_with('+'))
}

fn set(n: u32, value: &str) -> String {
    format!(
        "*3\r\n$3\r\nSET\r\n$16\r\nkey:{n:012}\r\n${}\r\n{value}\r\n",
        value.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_that_of_redis_benchmark() {
        assert_eq!(
            set(7, "abc"),
            "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000007\r\n$3\r\nabc\r\n"
        );
    }
}
