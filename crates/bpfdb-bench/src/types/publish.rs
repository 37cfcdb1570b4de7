//! PUBLISH to some subscribers: from the first message until all have been received.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use crate::plan::Plan;
use crate::sample::Sample;
use crate::tcp::{Clients, Sent, Server, Values, send};

pub(super) const SUBSCRIBERS: [u32; 3] = [1, 10, 100];
const SUBSCRIBE: &[u8] = b"*2\r\n$9\r\nSUBSCRIBE\r\n$4\r\nnews\r\n";
const SUBSCRIBED: &[u8] = b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n";
const PUBLISH: &[u8] = b"*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n$16\r\n0123456789abcdef\r\n";
const MESSAGE: &[u8] = b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$16\r\n0123456789abcdef\r\n";
/// A subscriber that hears nothing for so long hears nothing more.
const PATIENCE_MILLIS: u16 = 10_000;
const PATIENCE: Duration = Duration::from_millis(PATIENCE_MILLIS as u64);
const EVENTS: usize = 128;
const BUFFER: usize = 64 << 10;
/// Publishers, in pipelines of one.
const PUBLISHERS: Clients = Clients {
    connections: 8,
    threads: 1,
    pipeline: 1,
    database: 0,
};
/// Messages are at most as many: with few subscribers it is the publishers that are measured.
const MESSAGES_MAX: u32 = 20_000;

/// By number of subscribers, of each server: messages received per second.
pub(super) fn measure(plan: &Plan, servers: &[Server]) -> Result<Vec<Vec<Sample>>> {
    let none = || vec![Sample::default(); servers.len()];
    let mut rates: Vec<Vec<Sample>> = SUBSCRIBERS.iter().map(|_| none()).collect();
    for round in 0..plan.rounds {
        eprintln!("types-publish: round {} of {}", round + 1, plan.rounds);
        for (&subscribers, rates) in SUBSCRIBERS.iter().zip(&mut rates) {
            let messages = (plan.deliveries / subscribers).min(MESSAGES_MAX);
            // Each connection of the client gets its share.
            let messages = messages.next_multiple_of(PUBLISHERS.connections);
            for (server, rates) in servers.iter().zip(rates) {
                let time = publish(server, subscribers, messages);
                let time = time.with_context(|| format!("PUBLISH of {}", server.name))?;
                rates.push(f64::from(messages * subscribers) / time.as_secs_f64());
            }
        }
    }
    Ok(rates)
}

/// How long it takes to publish so many, until each subscriber has all of them.
fn publish(server: &Server, subscribers: u32, messages: u32) -> Result<Duration> {
    let mut streams: Vec<_> = (0..subscribers)
        .map(|_| subscribe(server))
        .collect::<Result<_>>()?;
    let expected = messages as usize * MESSAGE.len();
    thread::scope(|scope| {
        let hearing = scope.spawn(|| hear(&mut streams, expected));
        let start = Instant::now();
        send(server, PUBLISHERS, messages, |_| {
            let write = |to: &mut Vec<u8>| to.extend_from_slice(PUBLISH);
            Sent::new(Box::new(write), PUBLISHERS.pipeline, 1, Values::default)
        })?;
        let end = hearing.join().map_err(|_| anyhow!("a thread failed"))??;
        Ok(end.duration_since(start))
    })
}

fn subscribe(server: &Server) -> Result<TcpStream> {
    let mut stream = server.connect()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(SUBSCRIBE)?;
    let mut reply = vec![0; SUBSCRIBED.len()];
    stream.read_exact(&mut reply).context("subscribe")?;
    ensure!(reply == SUBSCRIBED, "SUBSCRIBE was refused");
    Ok(stream)
}

/// Reads so many bytes of each: when the last have come.
fn hear(streams: &mut [TcpStream], expected: usize) -> Result<Instant> {
    let poll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for (number, stream) in streams.iter().enumerate() {
        poll.add(stream, EpollEvent::new(EpollFlags::EPOLLIN, number as u64))?;
    }
    let mut left = expected * streams.len();
    let mut events = [EpollEvent::empty(); EVENTS];
    let mut buffer = vec![0; BUFFER];
    while left > 0 {
        let ready = poll.wait(&mut events, PATIENCE_MILLIS)?;
        ensure!(ready > 0, "{left} bytes of messages have not come");
        for event in &events[..ready] {
            let got = streams[event.data() as usize].read(&mut buffer)?;
            ensure!(got > 0, "the server has closed a subscriber");
            left = left.checked_sub(got).context("more than the messages")?;
        }
    }
    Ok(Instant::now())
}
