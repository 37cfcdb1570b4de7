//! The line that clients in MONITOR get for a request:
//! `1700000000.123456 [0 127.0.0.1:50000] "SET" "a" "1"`: when, database, address.

use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use super::context::Context;
use super::definition::{Command, Flag};
use crate::connection::info::Address;
use crate::protocol::reply::{Protocol, Replies};

/// What has a command executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Client,
    Script,
}

/// Before a command is executed: shows it if it is shown before those that it executes itself.
pub(crate) fn show_before(context: &mut Context<'_>, command: &Command, words: &[Vec<u8>]) {
    if command.has(Flag::SkipMonitor) {
        show(context, command, words, Caller::Client);
    }
}

/// After a command was executed.
pub(crate) fn show_after(
    context: &mut Context<'_>,
    command: &Command,
    words: &[Vec<u8>],
    caller: Caller,
) {
    if !command.has(Flag::SkipMonitor) {
        show(context, command, words, caller);
    }
}

/// Commands of administrators are not shown, as in Redis.
fn show(context: &mut Context<'_>, command: &Command, words: &[Vec<u8>], caller: Caller) {
    let instance = &*context.instance;
    if instance.monitors.is_empty() || command.has(Flag::Admin) {
        return;
    }
    let caller = match (caller, &context.connection.peer) {
        (Caller::Script, _) => "lua".to_owned(),
        (Caller::Client, Address::Unix(path)) => format!("unix:{}", path.display()),
        (Caller::Client, peer) => peer.to_string(),
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let database = context.connection.database;
    let (seconds, micros) = (now.as_secs(), now.subsec_micros());
    let mut text = format!("{seconds}.{micros:06} [{database} {caller}]").into_bytes();
    let hidden = hidden(command, words);
    for (at, word) in words.iter().enumerate() {
        if text.len() > SHOWN_MAX {
            let more = format!(" \"... ({} more arguments)\"", words.len() - at);
            text.extend_from_slice(more.as_bytes());
            break;
        }
        text.push(b' ');
        if hidden.contains(&at) {
            text.extend_from_slice(b"\"(redacted)\"");
        } else {
            quote(&mut text, word);
        }
    }
    let mut line = Replies::new(Protocol::Resp2);
    line.status(&text);
    let line = line.take();
    for index in instance.monitors.iter().copied().collect::<Vec<u32>>() {
        send(context, index, &line);
    }
}

/// The client that is being served is in no table; it is shown its request behind the reply.
fn send(context: &mut Context<'_>, index: u32, line: &[u8]) {
    if index == context.session.index() {
        let most = context.own_most();
        let is_kept = context.connection.mail.receive_behind(line, most);
        context.connection.close |= !is_kept;
    } else {
        context.push(index, line);
    }
}

/// Passwords: all that stands behind the first AUTH, which may be a name that a client has chosen.
fn hidden(command: &Command, words: &[Vec<u8>]) -> Range<usize> {
    let auth = |word: &Vec<u8>| word.eq_ignore_ascii_case(b"auth");
    match words.iter().position(auth) {
        Some(at) if command.secret => at + 1..words.len(),
        _ => 0..0,
    }
}

/// Bytes of a word that are shown, and about those of a request: all clients wait while it is written. What
/// is left out is counted, as SLOWLOG does.
const SHOWN_MAX: usize = 1 << 20;

/// As Redis writes a word: in quotes, with escapes for what cannot be printed.
fn quote(text: &mut Vec<u8>, word: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let shown = &word[..word.len().min(SHOWN_MAX)];
    text.push(b'"');
    for &byte in shown {
        match byte {
            b'\\' | b'"' => text.extend_from_slice(&[b'\\', byte]),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\t' => text.extend_from_slice(b"\\t"),
            0x07 => text.extend_from_slice(b"\\a"),
            0x08 => text.extend_from_slice(b"\\b"),
            b' '..=b'~' => text.push(byte),
            other => {
                let digit = |number: u8| DIGITS[usize::from(number)];
                text.extend_from_slice(&[b'\\', b'x', digit(other >> 4), digit(other & 15)]);
            }
        }
    }
    if shown.len() < word.len() {
        let more = format!("... ({} more bytes)", word.len() - shown.len());
        text.extend_from_slice(more.as_bytes());
    }
    text.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    #[test]
    fn words_are_quoted_as_in_redis() {
        let mut text = Vec::new();
        quote(&mut text, b"k\"\n\x01\xff\\ a");
        assert_eq!(text, br#""k\"\n\x01\xff\\ a""#);
    }

    #[test]
    fn of_a_long_word_the_beginning_is_shown() {
        let mut text = Vec::new();
        quote(&mut text, &b"x".repeat(SHOWN_MAX + 72));
        assert!(text.ends_with(b"xx... (72 more bytes)\""));
        assert!(text.len() < SHOWN_MAX + 40);
    }

    #[test]
    fn passwords_are_not_shown() {
        for (request, expected) in [
            ("AUTH secret", 1..2),
            ("auth user secret", 1..3),
            ("HELLO 3 AUTH user secret SETNAME x", 3..7),
            ("HELLO 3", 0..0),
            ("ECHO auth", 0..0),
        ] {
            let words: Vec<Vec<u8>> = request.split(' ').map(Into::into).collect();
            let call = table::find(&words).expect("a command");
            assert_eq!(hidden(call.command, &words), expected, "{request}");
        }
    }
}
