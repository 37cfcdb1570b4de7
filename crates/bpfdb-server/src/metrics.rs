//! The metrics endpoint: HTTP on an address of its own, in a thread of its
//! own. /metrics for Prometheus, /health while the daemon's thread is at work,
//! /ready while connections are taken in.
//!
//! It reads what the daemon counts and what the engine's maps say; it never
//! makes either wait. One request at a time is answered, its head is parsed by
//! httparse and bounded in length and time, and the connection closed: that is
//! all of HTTP that a scraper needs, so that no server with threads, queues and
//! limits of its own has to come with it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bpfdb::Engine;
use bpfdb::figures::{Figure, Kind};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::error::{Result, system};
use crate::statistics::{Histogram, Statistics};

const HEAD_MAX: usize = 8 * 1024;
const HEADERS_MAX: usize = 64;
/// Read and thrown away of what follows a bad request.
const DRAIN_MAX: usize = 64 * 1024;
/// Requests at the same time.
const AT_A_TIME: usize = 64;
/// For a whole request, and for taking its reply.
const PATIENCE: Duration = Duration::from_secs(2);
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The endpoint. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    listener: Arc<TcpListener>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    pub(crate) fn start(
        address: SocketAddr,
        engine: &Engine,
        statistics: &Arc<Statistics>,
    ) -> Result<Self> {
        let action = || format!("serve metrics on {address}");
        let listener = TcpListener::bind(address).map_err(system(action()))?;
        let address = listener.local_addr().map_err(system(action()))?;
        let listener = Arc::new(listener);
        let pages = Pages::new(engine, statistics);
        let of_thread = Arc::clone(&listener);
        let thread = thread::Builder::new()
            .name("bpfdb-metrics".into())
            .spawn(move || serve(&Arc::new(pages), &of_thread))
            .map_err(system(action()))?;

        tracing::info!(%address, "metrics are served");
        Ok(Self {
            address,
            listener,
            thread: Some(thread),
        })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Ends the accept() that the thread waits in.
        let ended =
            nix::sys::socket::shutdown(self.listener.as_raw_fd(), nix::sys::socket::Shutdown::Both);
        if ended.is_ok()
            && let Some(thread) = self.thread.take()
        {
            // A panic there was already reported by its hook.
            let _ = thread.join();
        }
    }
}

/// Each request has a thread of its own, so that clients that say nothing keep nobody
/// waiting. Beyond `AT_A_TIME` of them connections are closed.
fn serve(pages: &Arc<Pages>, listener: &TcpListener) {
    let running = Arc::new(());
    loop {
        match listener.accept() {
            Ok(_) if Arc::strong_count(&running) > AT_A_TIME => {}
            Ok((stream, _)) => {
                let (pages, running) = (Arc::clone(pages), Arc::clone(&running));
                let answer = move || {
                    if let Err(error) = pages.answer(stream) {
                        tracing::debug!(%error, "a request for metrics failed");
                    }
                    drop(running);
                };
                let thread = thread::Builder::new().name("bpfdb-metrics".into());
                if let Err(error) = thread.spawn(answer) {
                    tracing::warn!(%error, "cannot answer a request for metrics");
                }
            }
            // It was shut down.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a request for metrics");
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

#[derive(Debug)]
struct Pages {
    registry: Registry,
    statistics: Arc<Statistics>,
}

impl Pages {
    fn new(engine: &Engine, statistics: &Arc<Statistics>) -> Self {
        let mut registry = Registry::with_prefix("bpfdb");
        registry.register_collector(Box::new(EngineFigures(engine.clone())));
        registry.register_collector(Box::new(DaemonFigures {
            engine: engine.clone(),
            statistics: Arc::clone(statistics),
        }));
        Self {
            registry,
            statistics: Arc::clone(statistics),
        }
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = read_head(&mut stream)?;
        let response = match &head {
            Some(head) => self.response(head),
            None => Response::plain(400, "Bad Request"),
        };
        response.write(&mut stream)?;
        stream.shutdown(Shutdown::Write)?;
        if head.is_none() {
            drain(&mut stream)?;
        }
        Ok(())
    }

    fn response(&self, head: &Head) -> Response {
        if head.method != "GET" && head.method != "HEAD" {
            return Response::plain(405, "Method Not Allowed");
        }
        let path = head.path.split('?').next().unwrap_or_default();
        let mut response = match path {
            "/metrics" => self.metrics(),
            "/health" => Response::state(self.statistics.is_alive()),
            "/ready" => Response::state(self.statistics.is_ready()),
            _ => Response::plain(404, "Not Found"),
        };
        response.without_body = head.method == "HEAD";
        response
    }

    fn metrics(&self) -> Response {
        let mut body = String::new();
        match text::encode(&mut body, &self.registry) {
            Ok(()) => Response {
                content_type: CONTENT_TYPE,
                body,
                ..Response::plain(200, "OK")
            },
            Err(_) => Response::plain(500, "Internal Server Error"),
        }
    }
}

// ---- HTTP ---------------------------------------------------------------------

struct Head {
    method: String,
    path: String,
}

/// The head of a request; `None` if it is malformed, too long or too slow.
fn read_head(stream: &mut TcpStream) -> io::Result<Option<Head>> {
    let deadline = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    while bytes.len() < HEAD_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left))?;
        let got = stream.read(&mut chunk)?;
        if got == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk[..got]);

        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&bytes) {
            Ok(httparse::Status::Partial) => {}
            Ok(httparse::Status::Complete(_)) => {
                let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
                return Ok(Some(Head {
                    method: text(request.method),
                    path: text(request.path),
                }));
            }
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// Takes what the other side still sends, within bounds: who closes with bytes
/// unread resets the connection, and the response may be lost.
fn drain(stream: &mut TcpStream) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut chunk = [0; 1024];
    for _ in 0..DRAIN_MAX / chunk.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        stream.set_read_timeout(Some(left))?;
        if stream.read(&mut chunk)? == 0 {
            break;
        }
    }
    Ok(())
}

struct Response {
    code: u16,
    reason: &'static str,
    content_type: &'static str,
    body: String,
    without_body: bool,
}

impl Response {
    fn plain(code: u16, reason: &'static str) -> Self {
        Self {
            code,
            reason,
            content_type: "text/plain; charset=utf-8",
            body: format!("{reason}\n"),
            without_body: false,
        }
    }

    fn state(good: bool) -> Self {
        if good {
            Self::plain(200, "OK")
        } else {
            Self::plain(503, "Service Unavailable")
        }
    }

    fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        let mut text = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.code,
            self.reason,
            self.content_type,
            self.body.len()
        );
        if !self.without_body {
            text += &self.body;
        }
        stream.write_all(text.as_bytes())
    }
}

// ---- Figures ------------------------------------------------------------------

type Labels<'a> = [(&'static str, &'a str); 1];

fn number(mut metric: MetricEncoder<'_>, kind: Kind, value: u64) -> fmt::Result {
    match kind {
        Kind::Counter => metric.encode_counter::<NoLabelSet, _, u64>(&value, None),
        Kind::Gauge => metric.encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX)),
    }
}

fn metric_type(kind: Kind) -> MetricType {
    match kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
    }
}

/// One metric with one label, whose values these are.
fn family<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, kind): (&str, &str, Kind),
    label: &'static str,
    values: impl IntoIterator<Item = (&'a str, u64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, metric_type(kind))?;
    for (value_of_label, value) in values {
        let labels: Labels<'_> = [(label, value_of_label)];
        number(metric.encode_family(&labels)?, kind, value)?;
    }
    Ok(())
}

#[derive(Debug)]
struct EngineFigures(Engine);

impl Collector for EngineFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let figures = match self.0.stats() {
            Ok(stats) => stats.figures(),
            Err(error) => {
                tracing::warn!(%error, "cannot read the engine's figures");
                return Ok(());
            }
        };
        let mut done: Vec<&str> = Vec::new();
        for first in &figures {
            if done.contains(&first.metric) {
                continue;
            }
            done.push(first.metric);
            let same = figures.iter().filter(|one| one.metric == first.metric);
            encode_figures(&mut encoder, first, same)?;
        }
        Ok(())
    }
}

fn encode_figures<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    first: &Figure,
    same: impl Iterator<Item = &'a Figure>,
) -> fmt::Result {
    let Some((label, _)) = first.label else {
        let metric =
            encoder.encode_descriptor(first.metric, first.help, None, metric_type(first.kind))?;
        return number(metric, first.kind, first.value);
    };
    let values = same.filter_map(|figure| {
        let (_, name) = figure.label.as_ref()?;
        Some((name.as_str(), figure.value))
    });
    family(
        encoder,
        (first.metric, first.help, first.kind),
        label,
        values,
    )
}

#[derive(Debug)]
struct DaemonFigures {
    engine: Engine,
    statistics: Arc<Statistics>,
}

impl Collector for DaemonFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.plain(&mut encoder)?;
        self.requests(&mut encoder)?;
        self.durations(&mut encoder)
    }
}

impl DaemonFigures {
    #[rustfmt::skip]
    fn plain(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let s = &self.statistics;
        for (name, kind, help, value) in [
            ("uptime_seconds", Kind::Gauge, "Time since the server began", s.uptime().as_secs()),
            ("connections", Kind::Gauge, "Connections of clients", s.connections.get()),
            ("connections_unix", Kind::Gauge, "Connections through the Unix-domain socket", s.connections_unix.get()),
            ("connections_received", Kind::Counter, "Connections accepted", s.connections_received.get()),
            ("connections_rejected", Kind::Counter, "Connections refused: too many", s.connections_rejected.get()),
            ("connections_timed_out", Kind::Counter, "Connections closed because they were idle", s.connections_timed_out.get()),
            ("connections_over_output_limit", Kind::Counter, "Connections closed because they did not read", s.connections_over_output_limit.get()),
            ("connections_evicted", Kind::Counter, "Connections closed because all together used too much memory", s.connections_evicted.get()),
            ("client_memory_bytes", Kind::Gauge, "Memory of requests and replies in user space", s.client_memory.get()),
            ("input_bytes", Kind::Counter, "Bytes received in user space", s.input_bytes.get()),
            ("output_bytes", Kind::Counter, "Bytes sent from user space", s.output_bytes.get()),
            ("error_replies", Kind::Counter, "Errors that user space replied", s.error_replies.get()),
            ("authentications_failed", Kind::Counter, "Wrong passwords", s.authentications_failed.get()),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, metric_type(kind))?;
            number(metric, kind, value)?;
        }
        Ok(())
    }

    fn requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        // What is not known now is told the next time.
        let Ok(stats) = self.engine.stats() else {
            return Ok(());
        };
        family(
            encoder,
            ("requests", "Requests answered, by who did", Kind::Counter),
            "path",
            [
                ("kernel", stats.counters.requests_fast()),
                ("user_space", self.statistics.commands_executed()),
            ],
        )?;
        let used = || self.statistics.used_commands();
        family(
            encoder,
            (
                "commands_rejected",
                "Requests that user space did not execute",
                Kind::Counter,
            ),
            "command",
            used().map(|(name, of)| (name, of.rejected.get())),
        )?;
        family(
            encoder,
            (
                "commands_failed",
                "Commands executed in user space that failed",
                Kind::Counter,
            ),
            "command",
            used().map(|(name, of)| (name, of.failed.get())),
        )
    }

    fn durations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(
            "command_duration_seconds",
            "Commands executed in user space, and how long they took",
            None,
            MetricType::Histogram,
        )?;
        for (name, of) in self.statistics.used_commands() {
            let labels: Labels<'_> = [("command", name)];
            let sum = of.nanoseconds.get() as f64 / 1e9;
            let buckets = buckets(&of.times);
            let count = buckets.iter().map(|(_, count)| count).sum();
            metric
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}

/// Powers of four of nanoseconds, always the same.
fn buckets(times: &Histogram) -> Vec<(f64, u64)> {
    let octaves: Vec<_> = times.octaves().collect();
    let pairs = octaves.chunks(2);
    let last = pairs.len() - 1;
    let bucket = |(number, pair): (usize, &[(Duration, u64)])| {
        let end = pair.last().map_or(0.0, |(end, _)| end.as_secs_f64());
        let end = if number == last { f64::INFINITY } else { end };
        (end, pair.iter().map(|(_, count)| count).sum())
    };
    pairs.enumerate().map(bucket).collect()
}
