//! The part of HTTP that a scraper needs: the head of a request, and a response.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const HEAD_MAX: usize = 8 * 1024;
const HEADERS_MAX: usize = 64;
/// Read and thrown away of what follows a bad request.
const DRAIN_MAX: usize = 64 * 1024;
/// For a whole request, and for taking its reply.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) struct Head {
    pub(crate) method: String,
    pub(crate) path: String,
}

/// The head of a request; `None` if it is malformed, too long or too slow.
pub(crate) fn read_head(mut stream: &TcpStream) -> io::Result<Option<Head>> {
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

/// Takes what the other side still sends, within bounds: a side that closes with bytes
/// unread resets the connection, and the response may be lost.
pub(crate) fn drain(mut stream: &TcpStream) -> io::Result<()> {
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

/// A response with its body, which ends the connection.
#[derive(Clone, Debug)]
pub struct Response {
    code: u16,
    reason: &'static str,
    content_type: &'static str,
    body: String,
    pub(crate) without_body: bool,
}

impl Response {
    /// A text that says no more than the code.
    pub fn plain(code: u16, reason: &'static str) -> Self {
        Self {
            code,
            reason,
            content_type: "text/plain; charset=utf-8",
            body: format!("{reason}\n"),
            without_body: false,
        }
    }

    /// 200, with this body.
    pub fn of(content_type: &'static str, body: String) -> Self {
        Self {
            content_type,
            body,
            ..Self::plain(200, "OK")
        }
    }

    /// 200 if something is as it should be, else 503.
    pub fn state(good: bool) -> Self {
        if good {
            Self::plain(200, "OK")
        } else {
            Self::plain(503, "Service Unavailable")
        }
    }

    pub(crate) fn write(&self, stream: &mut impl Write) -> io::Result<()> {
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
