//! A running server, asked over the network as any client asks it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Map, Value};

#[derive(Args)]
pub(crate) struct Address {
    /// Address of the server
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_name = "ADDRESS")]
    host: IpAddr,
    /// Port of the server
    #[arg(long, short, default_value_t = 6379, value_name = "N")]
    port: u16,
    /// File whose first line is the password
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// A connection that speaks RESP3.
pub(crate) struct Server(BufReader<TcpStream>);

impl Server {
    pub(crate) fn connect(address: &Address) -> Result<Self> {
        let place = SocketAddr::new(address.host, address.port);
        let stream = TcpStream::connect(place);
        let stream = stream.with_context(|| format!("no server answers at {place}"))?;
        let mut server = Self(BufReader::new(stream));
        if let Some(path) = &address.password_file {
            let file = std::fs::read_to_string(path);
            let file = file.with_context(|| format!("cannot read {}", path.display()))?;
            server.ask(&["AUTH", file.lines().next().unwrap_or_default()])?;
        }
        server.ask(&["HELLO", "3"])?;
        Ok(server)
    }

    /// The reply to a command, if it is no error.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Result<Value> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.0.get_mut().write_all(request.as_bytes())?;
        reply(&mut self.0)
    }
}

/// Texts that are not UTF-8 are shown as far as they are.
fn reply(from: &mut impl BufRead) -> Result<Value> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let Some(rest) = line.strip_suffix("\r\n").and_then(|line| line.get(1..)) else {
        bail!("the server has closed the connection");
    };
    let count = || rest.parse::<usize>().context("a reply without a length");
    Ok(match line.as_bytes()[0] {
        b'+' => rest.into(),
        b'-' => bail!("the server says: {rest}"),
        b':' => rest
            .parse::<i64>()
            .context("a reply that is no number")?
            .into(),
        b'$' => text(from, count()?)?.into(),
        // After its kind: `txt:`.
        b'=' => text(from, count()?)?
            .chars()
            .skip(4)
            .collect::<String>()
            .into(),
        b'*' => (0..count()?)
            .map(|_| reply(from))
            .collect::<Result<Vec<_>>>()?
            .into(),
        b'%' => {
            let mut map = Map::new();
            for _ in 0..count()? {
                let field = reply(from)?;
                let field = field.as_str().unwrap_or_default().to_owned();
                map.insert(field, reply(from)?);
            }
            map.into()
        }
        b'_' => Value::Null,
        _ => bail!("the server's reply is not understood: {line:?}"),
    })
}

fn text(from: &mut impl BufRead, len: usize) -> Result<String> {
    let mut bytes = Vec::new();
    from.take(len as u64 + 2).read_to_end(&mut bytes)?;
    if bytes.len() != len + 2 {
        bail!("the server has closed the connection");
    }
    bytes.truncate(len);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replies() {
        for (bytes, value) in [
            ("+OK\r\n", json!("OK")),
            (":-3\r\n", json!(-3)),
            ("$3\r\na\r\n\r\n", json!("a\r\n")),
            ("=7\r\ntxt:abc\r\n", json!("abc")),
            ("_\r\n", json!(null)),
            ("*2\r\n:1\r\n*0\r\n", json!([1, []])),
            (
                "%1\r\n$1\r\na\r\n%1\r\n+b\r\n:2\r\n",
                json!({"a": {"b": 2}}),
            ),
        ] {
            let value_read = reply(&mut bytes.as_bytes());
            assert_eq!(value_read.expect(bytes), value, "{bytes:?}");
        }
        for (bytes, problem) in [
            ("-ERR no\r\n", "the server says: ERR no"),
            ("", "the server has closed the connection"),
            ("\r\n", "the server has closed the connection"),
            ("$3\r\nab", "the server has closed the connection"),
            ("$x\r\n", "a reply without a length"),
            (
                "!1\r\n",
                "the server's reply is not understood: \"!1\\r\\n\"",
            ),
        ] {
            let error = reply(&mut bytes.as_bytes()).expect_err(bytes);
            assert_eq!(error.to_string(), problem, "{bytes:?}");
        }
    }
}
