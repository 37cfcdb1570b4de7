//! Pages over HTTP on an address of its own, in threads of its own, which end with it.
//!
//! One request of a connection is answered, its head is parsed
//! by httparse and bounded in length and time, and the connection closed: that is
//! all of HTTP that a scraper needs, so that no server with queues and limits of
//! its own has to come with it.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::http::{self, Head, PATIENCE, Response};

/// Requests at the same time.
const AT_A_TIME: usize = 64;
/// That of the text form of OpenMetrics.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is served. It is asked in any thread, by several at once.
pub trait Pages: Send + Sync + 'static {
    /// The page of a path, without its query; `None`: there is none.
    fn page(&self, path: &str) -> Option<Response>;
}

/// The endpoint. Dropping it closes it.
#[derive(Debug)]
pub struct Endpoint {
    /// Where it is, with the port that it got.
    pub address: SocketAddr,
    listener: Arc<TcpListener>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    /// # Errors
    /// It cannot listen there, or has no thread.
    pub fn start(address: SocketAddr, pages: impl Pages) -> io::Result<Self> {
        let listener = Arc::new(TcpListener::bind(address)?);
        let address = listener.local_addr()?;
        let of_thread = Arc::clone(&listener);
        let pages: Arc<dyn Pages> = Arc::new(pages);
        let thread = thread::Builder::new()
            .name("bpfdb-metrics".into())
            .spawn(move || serve(&pages, &of_thread))?;
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
fn serve(pages: &Arc<dyn Pages>, listener: &TcpListener) {
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
    /// Gone when it is answered: a client is not to wait for the next request.
    stream: Weak<TcpStream>,
    thread: JoinHandle<()>,
}

impl Answer {
    fn begin(pages: &Arc<dyn Pages>, stream: TcpStream) -> io::Result<Self> {
        let (pages, stream) = (Arc::clone(pages), Arc::new(stream));
        let weak = Arc::downgrade(&stream);
        let answer = move || {
            if let Err(error) = reply(&*pages, &stream) {
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

fn reply(pages: &dyn Pages, mut stream: &TcpStream) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = http::read_head(stream)?;
    let response = match &head {
        Some(head) => response(pages, head),
        None => Response::plain(400, "Bad Request"),
    };
    response.write(&mut stream)?;
    stream.shutdown(Shutdown::Write)?;
    if head.is_none() {
        http::drain(stream)?;
    }
    Ok(())
}

fn response(pages: &dyn Pages, head: &Head) -> Response {
    if head.method != "GET" && head.method != "HEAD" {
        return Response::plain(405, "Method Not Allowed");
    }
    let path = head.path.split('?').next().unwrap_or_default();
    let page = pages.page(path);
    let mut response = page.unwrap_or_else(|| Response::plain(404, "Not Found"));
    response.without_body = head.method == "HEAD";
    response
}
