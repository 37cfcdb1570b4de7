//! One generated case: what two connections send, and in which pieces.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::Union;

use super::collections;
use super::commands::{self, Command};
use super::words::{self, Damage, LEXICONS, Words, all_keys, damaged};
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
    pub fn new(words: Words) -> Self {
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

    /// What empties what is left of a set of which chance has taken some: else the two servers
    /// would go on with other elements.
    fn cleared(&self) -> Option<Self> {
        let words = commands::inner(&self.words);
        let key = words.get(1)?;
        words[0].eq_ignore_ascii_case(b"spop").then(|| Self {
            connection: self.connection,
            ..Self::new(vec![b"del".to_vec(), key.clone()])
        })
    }

    /// The word that is the cursor, if this is one of the commands with a cursor.
    pub fn cursor(&self) -> Option<usize> {
        match () {
            () if self.is("scan") => Some(1),
            () if ["hscan", "sscan", "zscan"].iter().any(|name| self.is(name)) => Some(2),
            () => None,
        }
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
    let script = prop_oneof![15 => Just(None), 1 => prop::sample::select(SCRIPTS).prop_map(Some)];
    (
        connection,
        words,
        words::damage(),
        any::<u16>(),
        inline,
        script,
    )
        .prop_map(|(connection, words, damage, case, inline, script)| Step {
            connection,
            words: in_script(finished(words, damage.as_ref(), case), script),
            inline,
        })
}

/// Scripts that call the command of their arguments.
const SCRIPTS: &[&str] = &[
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "redis.setresp(3) return redis.call(unpack(ARGV))",
];

/// The commands of collections also come from scripts. (Those of strings are in scripts.rs.)
fn in_script(words: Words, script: Option<&str>) -> Words {
    match script {
        Some(script) if collections::find(&words[0]).is_some() => {
            let call = [b"eval".to_vec(), script.into(), b"0".to_vec()];
            [call.to_vec(), words].concat()
        }
        _ => words,
    }
}

/// The name in letters of any size.
fn finished(mut words: Words, damage: Option<&Damage>, case: u16) -> Words {
    for (i, byte) in words[0].iter_mut().enumerate() {
        if case >> (i % 16) & 1 == 1 {
            byte.make_ascii_uppercase();
        }
    }
    let is_lexicon = |word: &Vec<u8>| LEXICONS.iter().any(|key| key.as_bytes() == word);
    match words.iter().any(is_lexicon) {
        // Its scores stay the same.
        true => words,
        false => damaged(words, damage),
    }
}

/// Commands that show what there is, whatever it is: an error would show another type.
const LOOKS: &[&[&str]] = &[
    &["type"],
    &["get"],
    &["hgetall"],
    &["lrange", "0", "-1"],
    &["smembers"],
    &["zrange", "0", "-1", "withscores"],
    &["xrange", "-", "+"],
    &["pttl"],
];

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
    /// The steps, and what empties sets of which chance has taken some.
    pub fn cleared(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for step in &self.steps {
            steps.push(step.clone());
            steps.extend(step.cleared());
        }
        steps
    }

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
            // Redis counts what has expired until it is looked up.
            if step.is("dbsize") {
                let all = [vec![b"exists".to_vec()], all_keys()].concat();
                steps.push(Step {
                    connection: step.connection,
                    ..Step::new(all)
                });
            }
            steps.push(step.clone());
            steps.extend(step.cleared());
        }
        if known.contains("discard") {
            steps.push(Step::new(vec![b"discard".to_vec()]));
        }
        for key in all_keys() {
            for look in LOOKS.iter().filter(|look| known.contains(look[0])) {
                let mut words: Words = look.iter().map(|&word| word.into()).collect();
                words.insert(1, key.clone());
                steps.push(Step::new(words));
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
