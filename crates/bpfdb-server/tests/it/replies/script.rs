//! Scripts of requests and their replies, `tests/replies/*.txt`.
//!
//! ```text
//! # Everything behind # is for people.
//! == a section             no key, no connection of the section before is left
//! SET a "\x00 b"                        -> +OK
//! GET a                                 -> "\x00 b"
//! other: GET a                          -> "\x00 b"
//! SET k 'every \ as it is'              -> +OK
//! MGET a b
//!     -> ["\x00 b", nil]
//! wait 5 ms
//! GET "k"*513                           -> -ERR key is <any>
//!     unlike Redis: its keys may be longer
//! ```
//!
//! A line is a request, and behind `->` its reply ([`super::shown`]), which may also begin on the
//! next line and go on for more lines, indented. Before a colon stands the name of its connection;
//! the first one has none. Words are separated by blanks; those in double quotes understand what
//! replies do, those in apostrophes nothing.
//!
//! `unlike Redis:`, indented below a request, gives the reason why Redis replies something else: there
//! the request is made, but its reply is not looked at. Lines directly below the name of a section hold
//! for all of it: `unlike Redis: REASON`, and it is not run there; `not in transactions: REASON`,
//! and it is only run by commands of their own; `all in the kernel`: a local client has all of its
//! requests answered in its own `send()`.

use std::time::Duration;

use super::shown::{Rest, Shown};

#[derive(Debug)]
pub struct Script {
    /// Of the file.
    pub name: String,
    pub sections: Vec<Section>,
}

#[derive(Debug, Default)]
pub struct Section {
    pub title: String,
    pub is_unlike_redis: bool,
    pub is_for_commands_alone: bool,
    pub is_the_kernels: bool,
    pub steps: Vec<Step>,
}

#[derive(Debug)]
pub enum Step {
    Ask(Ask),
    Wait(Duration),
}

#[derive(Debug)]
pub struct Ask {
    /// Of the file, from 1.
    pub line: usize,
    /// Empty: the first one.
    pub connection: String,
    pub words: Vec<Vec<u8>>,
    pub reply: Shown,
    /// Request and reply, as they are in the file.
    pub request_text: String,
    pub reply_text: String,
    pub is_unlike_redis: bool,
}

/// A line with those that belong to it.
struct Item<'a> {
    line: usize,
    text: String,
    reasons: Vec<&'a str>,
}

const UNLIKE: &str = "unlike Redis:";
const ALONE: &str = "not in transactions:";
const KERNEL: &str = "all in the kernel";
const ARROW: &str = "->";

impl Script {
    /// An error names the line.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut sections: Vec<Section> = Vec::new();
        for item in items(text)? {
            let failed = |error| format!("{name}:{}: {error}", item.line);
            if let Some(title) = item.text.strip_prefix("== ") {
                sections.push(Section {
                    title: title.trim().to_owned(),
                    ..Section::default()
                });
                continue;
            }
            let section = sections
                .last_mut()
                .ok_or_else(|| failed("no section".to_owned()))?;
            section.add(&item).map_err(failed)?;
        }
        if sections.is_empty() {
            return Err(format!("{name}: nothing in it"));
        }
        Ok(Self {
            name: name.to_owned(),
            sections,
        })
    }
}

/// Lines that are indented belong to the one before.
fn items(text: &str) -> Result<Vec<Item<'_>>, String> {
    let mut items: Vec<Item<'_>> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if !line.starts_with(' ') {
            items.push(Item {
                line: number + 1,
                text: trimmed.to_owned(),
                reasons: Vec::new(),
            });
            continue;
        }
        let item = items.last_mut();
        let item = item.ok_or_else(|| format!("line {}: belongs to none", number + 1))?;
        match trimmed.strip_prefix(UNLIKE) {
            Some(reason) => item.reasons.push(reason),
            None => {
                item.text.push(' ');
                item.text.push_str(trimmed);
            }
        }
    }
    Ok(items)
}

fn reason(text: &str) -> Result<bool, String> {
    match text.trim() {
        "" => Err("no reason".to_owned()),
        _ => Ok(true),
    }
}

impl Section {
    fn add(&mut self, item: &Item<'_>) -> Result<(), String> {
        let of_all = [
            (UNLIKE, &mut self.is_unlike_redis),
            (ALONE, &mut self.is_for_commands_alone),
        ];
        for (start, flag) in of_all {
            if let Some(why) = item.text.strip_prefix(start) {
                if !self.steps.is_empty() {
                    return Err(format!(
                        "{start} is for the whole section, above its requests"
                    ));
                }
                *flag = reason(why)?;
                return Ok(());
            }
        }
        if item.text == KERNEL {
            self.is_the_kernels = true;
            return Ok(());
        }
        let words: Vec<&str> = item.text.split_whitespace().collect();
        let step = match words[..] {
            ["wait", number, "ms"] => {
                let number = number.parse().map_err(|_| format!("no number: {number}"))?;
                Step::Wait(Duration::from_millis(number))
            }
            _ => Step::Ask(Ask::parse(item)?),
        };
        self.steps.push(step);
        Ok(())
    }

    pub fn asked(&self) -> impl Iterator<Item = &Ask> {
        self.steps.iter().filter_map(|step| match step {
            Step::Ask(ask) => Some(ask),
            Step::Wait(_) => None,
        })
    }
}

impl Ask {
    fn parse(item: &Item<'_>) -> Result<Self, String> {
        let (connection, request) = connection(&item.text);
        let mut rest = Rest(request);
        let mut words = Vec::new();
        let behind = loop {
            rest.0 = rest.0.trim_start();
            if rest.0.starts_with(ARROW) {
                break rest.0;
            }
            words.push(word(&mut rest)?);
        };
        if words.is_empty() {
            return Err("no request".to_owned());
        }
        let mut is_unlike_redis = false;
        for why in &item.reasons {
            is_unlike_redis = reason(why)?;
        }
        let reply_text = behind[ARROW.len()..].trim();
        Ok(Self {
            line: item.line,
            connection: connection.to_owned(),
            words,
            reply: Shown::parse(reply_text)?,
            request_text: item.text[..item.text.len() - behind.len()]
                .trim()
                .to_owned(),
            reply_text: reply_text.to_owned(),
            is_unlike_redis,
        })
    }

    pub fn words(&self) -> Vec<&[u8]> {
        self.words.iter().map(Vec::as_slice).collect()
    }
}

/// The name before the request, if it has one.
fn connection(text: &str) -> (&str, &str) {
    let named = text.split_once(": ").filter(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    named.unwrap_or(("", text))
}

/// The next word of a request.
fn word(rest: &mut Rest<'_>) -> Result<Vec<u8>, String> {
    if let Some(mut parts) = rest.quoted()? {
        return match (parts.pop(), parts.is_empty()) {
            (Some(word), true) => Ok(word),
            _ => Err("a request has no <any>".to_owned()),
        };
    }
    if let Some(inner) = rest.0.strip_prefix('\'') {
        let (word, behind) = inner
            .split_once('\'')
            .ok_or_else(|| format!("no end of {}", rest.0))?;
        rest.0 = behind;
        return Ok(word.as_bytes().to_vec());
    }
    let end = rest.0.find(char::is_whitespace);
    let (word, behind) = rest.0.split_at(end.unwrap_or(rest.0.len()));
    if word.is_empty() {
        return Err("no reply".to_owned());
    }
    rest.0 = behind;
    Ok(word.as_bytes().to_vec())
}
