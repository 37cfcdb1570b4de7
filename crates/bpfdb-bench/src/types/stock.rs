//! The collections that are there before anything is measured, and the memory that they take.

use std::ops::Range;

use anyhow::{Context, Result};
use bpfdb_apps::client::{Client, command};

use super::client;
use crate::plan::Plan;
use crate::tcp::Server;

/// Elements of a small collection.
pub(super) const SMALL: u32 = 20;
/// Of the hash that is read as a whole, and of the list.
pub(super) const FIELDS: u32 = 50;
const ELEMENTS: u32 = 100;
/// That are added by one command.
const AT_ONCE: u32 = 200;
/// Bytes of requests that are sent before their replies are read.
const CHUNK: usize = 32 << 10;

/// Adds the words of the element with this number to a command.
type Words = fn(&mut Vec<String>, u32);

/// Collections of one kind: `name:000000` and so on, or one that is large.
pub(super) struct Stock {
    name: &'static str,
    command: &'static str,
    words: Words,
    /// Of small ones; `None`: one large one.
    collections: Option<u32>,
    elements: u32,
    /// How it stands in the table of memory, with how many times the smaller Redis's bytes are
    /// allowed; `None`: it does not.
    pub(super) memory: Option<(&'static str, f64)>,
}

/// Bytes of a packed element, and of one of a large list, against Redis's.
const PACKED: f64 = 1.3;
const LARGE: f64 = 1.0;
const LARGE_LIST: f64 = 2.0;

const HASH: (&str, Words) = ("HSET", |to, n| {
    to.extend([format!("field:{n:08}"), VALUE.into()]);
});
const SET: (&str, Words) = ("SADD", |to, n| to.push(format!("member:{n:08}")));
const SORTED_SET: (&str, Words) = ("ZADD", |to, n| {
    to.extend([scattered(n).to_string(), format!("member:{n:08}")]);
});
const LIST: (&str, Words) = ("RPUSH", |to, n| to.push(format!("value:{n:010}")));
/// So short that all of them fit one record.
const FIELD: (&str, Words) = ("HSET", |to, n| {
    to.extend([format!("f{n:02}"), "abcdefgh".into()]);
});
const ELEMENT: (&str, Words) = ("RPUSH", |to, n| to.push(format!("e{n:04}")));

const VALUE: &str = "0123456789abcdef";

/// A whole score below a million: neighbours in number are not neighbours in score.
fn scattered(n: u32) -> u32 {
    n.wrapping_mul(0x9e37_79b1) % 1_000_000
}

impl Stock {
    pub(super) fn small(plan: &Plan) -> Vec<Self> {
        let small =
            |name, (command, words): (_, Words), elements, memory: Option<&'static str>| Self {
                name,
                command,
                words,
                collections: Some(plan.collections),
                elements,
                memory: memory.map(|name| (name, PACKED)),
            };
        vec![
            small(
                "hash",
                HASH,
                SMALL,
                Some("hash of 20, field 14 B, value 16 B"),
            ),
            small("set", SET, SMALL, Some("set of 20, 15 B")),
            small("zset", SORTED_SET, SMALL, Some("sorted set of 20, 15 B")),
            small("list", LIST, SMALL, Some("list of 20, 16 B")),
            small("fields", FIELD, FIELDS, None),
            small("elements", ELEMENT, ELEMENTS, None),
        ]
    }

    pub(super) fn all(plan: &Plan) -> Vec<Self> {
        let large = |name, (command, words): (_, Words), memory| Self {
            name,
            command,
            words,
            collections: None,
            elements: plan.elements,
            memory: Some(memory),
        };
        let mut all = Self::small(plan);
        all.extend([
            large(
                "large:hash",
                HASH,
                ("large hash, field 14 B, value 16 B", LARGE),
            ),
            large("large:set", SET, ("large set, 15 B", LARGE)),
            large("large:zset", SORTED_SET, ("large sorted set, 15 B", LARGE)),
            large("large:list", LIST, ("large list, 16 B", LARGE_LIST)),
        ]);
        all
    }

    /// One large hash more.
    pub(super) fn large_hash(name: &'static str, plan: &Plan) -> Self {
        Self {
            name,
            command: HASH.0,
            words: HASH.1,
            collections: None,
            elements: plan.elements,
            memory: None,
        }
    }

    /// Of all collections.
    fn count(&self) -> u32 {
        self.collections.unwrap_or(1) * self.elements
    }

    pub(super) fn fill(&self, client: &mut Client) -> Result<()> {
        let mut chunk = Chunk::new(client);
        for collection in 0..self.collections.unwrap_or(1) {
            let key = match self.collections {
                Some(_) => format!("{}:{collection:06}", self.name),
                None => self.name.to_owned(),
            };
            for first in (0..self.elements).step_by(AT_ONCE as usize) {
                let some = first..self.elements.min(first + AT_ONCE);
                chunk.add(&self.words(&key, some))?;
            }
        }
        chunk.flush()
    }

    fn words(&self, key: &str, elements: Range<u32>) -> Vec<String> {
        let mut words = vec![self.command.to_owned(), key.to_owned()];
        elements.for_each(|n| (self.words)(&mut words, n));
        words
    }
}

/// Fills a server: of each stock the bytes of an element, its share of the key included.
pub(super) fn fill(server: &Server, stocks: &[Stock]) -> Result<Vec<f64>> {
    let mut client = client(server)?;
    let mut bytes = Vec::new();
    for stock in stocks {
        eprintln!("types: {} into {}", stock.name, server.name);
        let before = used_memory(&mut client)?;
        let filled = stock.fill(&mut client);
        filled.with_context(|| format!("fill {} of {}", stock.name, server.name))?;
        let taken = used_memory(&mut client)? - before;
        bytes.push(taken / f64::from(stock.count()));
    }
    Ok(bytes)
}

/// What the server says that its data takes.
fn used_memory(client: &mut Client) -> Result<f64> {
    let reply = client.ask(&["INFO", "memory"])?;
    let figure = reply
        .text()?
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    Ok(figure.context("no used_memory")?.trim().parse()?)
}

/// Requests that are sent together.
struct Chunk<'a> {
    client: &'a mut Client,
    requests: Vec<u8>,
    count: usize,
}

impl<'a> Chunk<'a> {
    fn new(client: &'a mut Client) -> Self {
        Self {
            client,
            requests: Vec::new(),
            count: 0,
        }
    }

    fn add(&mut self, words: &[String]) -> Result<()> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        command(&mut self.requests, &words);
        self.count += 1;
        if self.requests.len() < CHUNK {
            return Ok(());
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        self.client.send(&self.requests)?;
        for _ in 0..self.count {
            self.client.reply()?;
        }
        self.requests.clear();
        self.count = 0;
        Ok(())
    }
}
