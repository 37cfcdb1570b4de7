//! Scripts: what several sessions do, step by step, and what they get.
//!
//! ```text
//! # Everything behind # is for people.
//! versions 2                     of the engine; 4 if not given
//! A begin                        -> ok
//! A get x                        -> = 1
//! B set x 2                      -> CONFLICT
//! state
//!     x = 1
//!     locks 1, transactions 1
//! ```
//!
//! A session is opened when it is first named. Operators and outcomes are those
//! of [`crate::words`]. `state` shows what is committed under every key of the
//! script, and what the engine holds. Running a script gives its text again with
//! the actual outcomes: a script passes if that is the same text.

use std::collections::BTreeMap;

use bpfdb_model::Op;

use crate::target::{Client, Target, scrub};
use crate::words::{op_from_text, op_to_text, outcome_to_text, to_word};

pub struct Script {
    pub versions: usize,
    lines: Vec<Line>,
    /// In the order of their first use.
    keys: Vec<Vec<u8>>,
}

enum Line {
    /// Comments, empty lines, `versions`.
    Text(String),
    Step {
        session: String,
        op: Op,
    },
    State,
}

/// Longer ones, and the empty one, hold nothing.
const LONGEST_KEY: usize = 512;

/// Where the outcomes start.
const COLUMN: usize = 32;

impl Script {
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut script = Script {
            versions: 4,
            lines: Vec::new(),
            keys: Vec::new(),
        };
        for (number, line) in text.lines().enumerate() {
            script
                .parse_line(line)
                .map_err(|error| format!("line {}: {error}", number + 1))?;
        }
        Ok(script)
    }

    fn parse_line(&mut self, line: &str) -> Result<(), String> {
        // Indented: the state that was expected.
        if line.starts_with(' ') {
            return Ok(());
        }
        let (command, _expected) = line.split_once(" -> ").unwrap_or((line, ""));
        match command.split_once(' ') {
            _ if command.is_empty() || command.starts_with('#') => self.text(line),
            None if command == "state" => self.lines.push(Line::State),
            Some(("versions", number)) => {
                self.versions = number
                    .trim()
                    .parse()
                    .map_err(|_| "versions takes a number")?;
                self.text(line);
            }
            Some((session, op)) => {
                let op = op_from_text(op)?;
                let key = op
                    .key()
                    .filter(|key| (1..=LONGEST_KEY).contains(&key.len()));
                if let Some(key) = key.filter(|key| !self.keys.iter().any(|k| k == key)) {
                    self.keys.push(key.to_vec());
                }
                self.lines.push(Line::Step {
                    session: session.to_string(),
                    op,
                });
            }
            None => return Err(format!("neither a step nor a state: {line}")),
        }
        Ok(())
    }

    fn text(&mut self, line: &str) {
        self.lines.push(Line::Text(line.to_string()));
    }

    /// Runs on an empty target and leaves it empty. The text with what happened.
    pub fn run<T: Target>(&self, target: &T) -> Result<String, String> {
        let mut clients: BTreeMap<&str, T::Client<'_>> = BTreeMap::new();
        let mut observer = target.client();
        let mut text = String::new();
        for line in &self.lines {
            match line {
                Line::Text(line) => text += line,
                Line::Step { session, op } => {
                    let client = clients.entry(session).or_insert_with(|| target.client());
                    let step = format!("{session} {}", op_to_text(op));
                    let outcome = outcome_to_text(&client.apply(op));
                    text += &format!("{step:COLUMN$} -> {outcome}");
                }
                Line::State => text += &self.state(target, &mut observer),
            }
            text.push('\n');
        }
        drop((clients, observer));
        scrub(target, &self.keys)?;
        Ok(text)
    }

    fn state<T: Target>(&self, target: &T, observer: &mut T::Client<'_>) -> String {
        let mut text = String::from("state\n");
        for key in &self.keys {
            let outcome = outcome_to_text(&observer.apply(&Op::Get(key.clone())));
            text += &format!("    {} {outcome}\n", to_word(key));
        }
        let held = target.gauges();
        text + &format!(
            "    locks {}, transactions {}",
            held.locks, held.transactions
        )
    }
}

/// What to tell a person; `None` if the texts are the same.
pub fn difference(expected: &str, actual: &str) -> Option<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    if old == new {
        return None;
    }
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = old.iter().zip(&new).take_while(same).count();
    let tail = old[head..]
        .iter()
        .rev()
        .zip(new[head..].iter().rev())
        .take_while(same)
        .count();
    let mut text = String::new();
    let shown = |sign: char, lines: &[&str]| -> String {
        lines
            .iter()
            .map(|line| format!("{sign} {line}\n"))
            .collect()
    };
    text += &shown(' ', &old[head.saturating_sub(3)..head]);
    text += &shown('-', &old[head..old.len() - tail]);
    text += &shown('+', &new[head..new.len() - tail]);
    text += &shown(' ', &old[old.len() - tail..][..tail.min(3)]);
    Some(text)
}
