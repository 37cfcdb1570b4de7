//! The metrics endpoint: HTTP on an address of its own, in threads of its
//! own, which end with it. /metrics for Prometheus, /health while the daemon's thread is at work,
//! /ready while connections are taken in.
//!
//! It reads what the daemon counts and what the engine's maps say; it never
//! makes either wait. One request of a connection is answered, its head is parsed
//! by httparse and bounded in length and time, and the connection closed: that is
//! all of HTTP that a scraper needs, so that no server with queues and limits of
//! its own has to come with it.

mod encode;
mod figures;
mod http;

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bpfdb::Engine;
use bpfdb_durability::Durability;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use self::http::{Head, PATIENCE, Response};
use crate::error::{Result, system};
use crate::stats::statistics::Statistics;

/// Requests at the same time.
const AT_A_TIME: usize = 64;
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
        log: Option<&Arc<Durability>>,
    ) -> Result<Self> {
        let action = || format!("serve metrics on {address}");
        let listener = TcpListener::bind(address).map_err(system(action()))?;
        let address = listener.local_addr().map_err(system(action()))?;
        let listener = Arc::new(listener);
        let pages = Pages::new(engine, statistics, log);
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
    let mut answers: Vec<Answer> = Vec::new();
    loop {
        let accepted = listener.accept();
        answers.retain(|answer| !answer.thread.is_finished());
        match accepted {
            Ok(_) if answers.len() >= AT_A_TIME => {}
            Ok((stream, _)) => match Answer::begin(pages, stream) {
                Ok(answer) => answers.push(answer),
                Err(error) => tracing::warn!(%error, "cannot answer a request for metrics"),
            },
            // It was shut down.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a request for metrics");
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
    answers.into_iter().for_each(Answer::end);
}

/// A request that is being answered.
struct Answer {
    /// Gone when it is answered: who has asked is not to wait for the next request.
    stream: Weak<TcpStream>,
    thread: JoinHandle<()>,
}

impl Answer {
    fn begin(pages: &Arc<Pages>, stream: TcpStream) -> io::Result<Self> {
        let (pages, stream) = (Arc::clone(pages), Arc::new(stream));
        let weak = Arc::downgrade(&stream);
        let answer = move || {
            if let Err(error) = pages.answer(&stream) {
                tracing::debug!(%error, "a request for metrics failed");
            }
        };
        let thread = thread::Builder::new().name("bpfdb-metrics".into());
        Ok(Self {
            stream: weak,
            thread: thread.spawn(answer)?,
        })
    }

    /// Its reading or writing fails then, and the thread ends.
    fn end(self) {
        if let Some(stream) = self.stream.upgrade() {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        // A panic there was already reported by its hook.
        let _ = self.thread.join();
    }
}

#[derive(Debug)]
struct Pages {
    registry: Registry,
    statistics: Arc<Statistics>,
}

impl Pages {
    fn new(engine: &Engine, statistics: &Arc<Statistics>, log: Option<&Arc<Durability>>) -> Self {
        Self {
            registry: figures::registry(engine, statistics, log),
            statistics: Arc::clone(statistics),
        }
    }

    fn answer(&self, mut stream: &TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = http::read_head(stream)?;
        let response = match &head {
            Some(head) => self.response(head),
            None => Response::plain(400, "Bad Request"),
        };
        response.write(&mut stream)?;
        stream.shutdown(Shutdown::Write)?;
        if head.is_none() {
            http::drain(stream)?;
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
            Ok(()) => Response::of(CONTENT_TYPE, body),
            Err(_) => Response::plain(500, "Internal Server Error"),
        }
    }
}
