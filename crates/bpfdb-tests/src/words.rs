//! Operators and outcomes as text, the language of the scripts.
//!
//! ```text
//! begin | begin-read-only | commit | rollback | reconnect
//! get KEY | get-for-update KEY | delete KEY | set KEY VALUE
//! set-for KEY VALUE MS | expiry KEY | scan | pass MS | sweep
//! set-typed KEY TYPE VALUE | get-any KEY
//! ```
//!
//! KEY and VALUE are words; `\x00` is the byte 0, `k*512` the word k, 512 times.
//! TYPE is the number of a type. An outcome is `ok`, `absent`, `= VALUE`, `type TYPE = VALUE`,
//! `left MS`, `keys KEY ...`, or the name of an Error.

use bpfdb_model::{Answer, Op, Outcome};

/// The shortest word for the bytes.
pub fn to_word(bytes: &[u8]) -> String {
    let escape = |bytes: &[u8]| {
        bytes
            .escape_ascii()
            .to_string()
            .replace(' ', "\\x20")
            .replace('*', "\\x2a")
    };
    match bytes {
        [] => "*0".to_string(),
        [first, _, _, _, ..] if bytes.iter().all(|byte| byte == first) => {
            format!("{}*{}", escape(&[*first]), bytes.len())
        }
        _ => escape(bytes),
    }
}

pub fn from_word(word: &str) -> Result<Vec<u8>, String> {
    let (base, times) = match word.rsplit_once('*') {
        None => (word, 1),
        Some((base, times)) => (
            base,
            times.parse().map_err(|_| format!("no number: {word}"))?,
        ),
    };
    Ok(unescape(base)?.repeat(times))
}

/// `\xHH`, `\r`, `\n`, `\t`, and a backslash before any other byte.
pub fn unescape(base: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = base.as_bytes();
    while let [first, others @ ..] = rest {
        rest = others;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (byte, length) = match rest {
            [b'x', high, low, ..] => (hex(*high)? * 16 + hex(*low)?, 3),
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b't', ..] => (b'\t', 1),
            [other, ..] => (*other, 1),
            [] => return Err(format!("nothing behind \\ in {base}")),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    Ok(bytes)
}

fn hex(digit: u8) -> Result<u8, String> {
    let value = (digit as char).to_digit(16);
    value
        .map(|value| value as u8)
        .ok_or(format!("no hexadecimal digit: {}", digit as char))
}

pub fn op_to_text(op: &Op) -> String {
    match op {
        Op::Begin => "begin".to_string(),
        Op::BeginReadOnly => "begin-read-only".to_string(),
        Op::Get(key) => format!("get {}", to_word(key)),
        Op::GetForUpdate(key) => format!("get-for-update {}", to_word(key)),
        Op::Set(key, value) => format!("set {} {}", to_word(key), to_word(value)),
        Op::SetFor(key, value, time) => {
            format!("set-for {} {} {time}", to_word(key), to_word(value))
        }
        Op::SetTyped(key, kind, value) => {
            format!("set-typed {} {kind} {}", to_word(key), to_word(value))
        }
        Op::GetAny(key) => format!("get-any {}", to_word(key)),
        Op::Expiry(key) => format!("expiry {}", to_word(key)),
        Op::Delete(key) => format!("delete {}", to_word(key)),
        Op::Scan => "scan".to_string(),
        Op::Commit => "commit".to_string(),
        Op::Rollback => "rollback".to_string(),
        Op::Reconnect => "reconnect".to_string(),
        Op::Pass(time) => format!("pass {time}"),
        Op::Sweep => "sweep".to_string(),
    }
}

pub fn op_from_text(text: &str) -> Result<Op, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    Ok(match words[..] {
        ["begin"] => Op::Begin,
        ["begin-read-only"] => Op::BeginReadOnly,
        ["get", key] => Op::Get(from_word(key)?),
        ["get-for-update", key] => Op::GetForUpdate(from_word(key)?),
        ["set", key, value] => Op::Set(from_word(key)?, from_word(value)?),
        ["set-for", key, value, time] => {
            Op::SetFor(from_word(key)?, from_word(value)?, milliseconds(time)?)
        }
        ["set-typed", key, kind, value] => {
            let kind = kind.parse().map_err(|_| format!("no type: {kind}"))?;
            Op::SetTyped(from_word(key)?, kind, from_word(value)?)
        }
        ["get-any", key] => Op::GetAny(from_word(key)?),
        ["expiry", key] => Op::Expiry(from_word(key)?),
        ["delete", key] => Op::Delete(from_word(key)?),
        ["scan"] => Op::Scan,
        ["commit"] => Op::Commit,
        ["rollback"] => Op::Rollback,
        ["reconnect"] => Op::Reconnect,
        ["pass", time] => Op::Pass(milliseconds(time)?),
        ["sweep"] => Op::Sweep,
        _ => return Err(format!("no operator: {text}")),
    })
}

fn milliseconds(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("no number: {word}"))
}

pub fn outcome_to_text(outcome: &Outcome) -> String {
    match outcome {
        Ok(Answer::Done) => "ok".to_string(),
        Ok(Answer::Absent) => "absent".to_string(),
        Ok(Answer::Value(value)) => format!("= {}", to_word(value)),
        Ok(Answer::Typed(kind, value)) => format!("type {kind} = {}", to_word(value)),
        Ok(Answer::Left(time)) => format!("left {time}"),
        Ok(Answer::Keys(keys)) => {
            let words = keys.iter().map(|key| format!(" {}", to_word(key)));
            format!("keys{}", words.collect::<String>())
        }
        Err(error) => error.to_string(),
    }
}
