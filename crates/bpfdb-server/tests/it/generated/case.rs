//! One generated case: what two connections send, and in which pieces.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::Union;

use super::commands::Command;
use super::words::{self, Damage, KEYS, Words, damaged, key_at};
use bpfdb_tests::server::{request, show};

pub const CONNECTIONS: usize = 2;

#[derive(Clone)]
pub struct Step {
    pub connection: usize,
    pub words: Words,
    /// Sent as a line, if its words allow it.
    inline: bool,
}

#[derive(Clone)]
pub struct Case {
    pub resp3: [bool; CONNECTIONS],
    pub steps: Vec<Step>,
    /// How many requests are sent before their replies are read; the last
    /// number is repeated.
    pub pipelines: Vec<usize>,
    /// Lengths of the pieces in which they are sent; then the rest at once.
    pub pieces: Vec<usize>,
}

impl Step {
    fn new(words: Words) -> Self {
        Self {
            connection: 0,
            words,
            inline: false,
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let plain = |word: &Vec<u8>| {
            !word.is_empty()
                && word.len() < 100
                && (word.iter()).all(|byte| byte.is_ascii_graphic() && !b"\"'*".contains(byte))
        };
        if self.inline && self.words.iter().all(plain) {
            return [self.words.join(&b' '), b"\r\n".to_vec()].concat();
        }
        request(&self.words.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    pub fn is(&self, name: &str) -> bool {
        self.words[0].eq_ignore_ascii_case(name.as_bytes())
    }
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<String> = self.words.iter().map(|word| show_word(word)).collect();
        let inline = if self.inline { " (inline)" } else { "" };
        write!(f, "{}: {}{inline}", self.connection, words.join(" "))
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "RESP3 {:?}, pipelines {:?}, pieces {:?}",
            self.resp3, self.pipelines, self.pieces
        )?;
        (self.steps.iter()).try_for_each(|step| writeln!(f, "  {step:?}"))
    }
}

/// As redis-cli would take it, but for long words.
fn show_word(word: &[u8]) -> String {
    if word.len() > 100 {
        return show(&word[..20]).replace("(20 bytes)", &format!("({} bytes)", word.len()));
    }
    if !word.is_empty() && word.iter().all(u8::is_ascii_graphic) {
        return String::from_utf8_lossy(word).into_owned();
    }
    format!("\"{}\"", word.escape_ascii())
}

fn step(commands: &[&'static Command]) -> impl Strategy<Value = Step> + use<> {
    let words = Union::new_weighted(
        commands
            .iter()
            .map(|command| {
                let name = command.name.as_bytes().to_vec();
                let arguments = (command.arguments)();
                let words =
                    arguments.prop_map(move |arguments| [vec![name.clone()], arguments].concat());
                (command.weight, words.boxed())
            })
            .collect(),
    );
    let connection = prop_oneof![4 => Just(0usize), 1 => Just(1usize)];
    let inline = prop::bool::weighted(0.03);
    (connection, words, words::damage(), any::<u16>(), inline).prop_map(
        |(connection, words, damage, case, inline)| Step {
            connection,
            words: finished(words, damage.as_ref(), case),
            inline,
        },
    )
}

/// The name in letters of any size.
fn finished(mut words: Words, damage: Option<&Damage>, case: u16) -> Words {
    for (i, byte) in words[0].iter_mut().enumerate() {
        if case >> (i % 16) & 1 == 1 {
            byte.make_ascii_uppercase();
        }
    }
    damaged(words, damage)
}

pub fn case(commands: &[&'static Command]) -> impl Strategy<Value = Case> + use<> {
    (
        any::<[bool; CONNECTIONS]>(),
        proptest::collection::vec(step(commands), 1..60),
        proptest::collection::vec(1..12usize, 0..8),
        proptest::collection::vec(prop_oneof![1..20usize, 1..2000usize], 0..20),
    )
        .prop_map(|(resp3, steps, pipelines, pieces)| Case {
            resp3,
            steps,
            pipelines,
            pieces,
        })
}

impl Case {
    /// All that is sent: the case on empty servers, and then a look at what it
    /// left behind.
    pub fn whole(&self, known: &BTreeSet<String>) -> Vec<Step> {
        let mut steps = Vec::new();
        let resp3 = |&connection: &usize| self.resp3[connection] && known.contains("reset");
        for connection in (0..CONNECTIONS).filter(resp3) {
            steps.push(Step {
                connection,
                ..Step::new(vec![b"hello".to_vec(), b"3".to_vec()])
            });
        }
        for step in &self.steps {
            // Redis counts what has expired until somebody looks at it.
            if step.is("dbsize") {
                let all = [vec![b"exists".to_vec()], all_keys()].concat();
                steps.push(Step {
                    connection: step.connection,
                    ..Step::new(all)
                });
            }
            steps.push(step.clone());
        }
        if known.contains("discard") {
            steps.push(Step::new(vec![b"discard".to_vec()]));
        }
        for key in all_keys() {
            for name in ["get", "pttl"]
                .into_iter()
                .filter(|&name| known.contains(name))
            {
                steps.push(Step::new(vec![name.as_bytes().to_vec(), key.clone()]));
            }
        }
        steps
    }
}

/// What empties a server.
pub fn wipe(known: &BTreeSet<String>) -> Words {
    if known.contains("flushall") {
        return vec![b"flushall".to_vec()];
    }
    let mut words = all_keys();
    words.insert(0, b"del".to_vec());
    words.extend(words::JUNK.iter().map(|word| word.as_bytes().to_vec()));
    words.extend(["short:1", "short:2"].map(|word| word.as_bytes().to_vec()));
    words
}

fn all_keys() -> Words {
    (0..KEYS).map(key_at).collect()
}
