//! What a function returns is what the caller gets.

use super::{Alone, compiler, engine, failure, library};
use bpfdb::abi::{BPFDB_CALL_TEXT_MAX, BPFDB_CALL_WORDS, BPFDB_CALL_WORDS_BYTES};
use bpfdb_procedures::inside::{CallError, Failure, Reply, ReplyRef};

fn text(text: impl AsRef<[u8]>) -> Reply {
    Reply::Text(text.as_ref().to_vec())
}

/// No byte of a line ends it, wherever it stands; bytes behind the line do not matter.
#[test]
fn what_would_end_a_line_is_found_at_every_place() {
    let mut alone =
        Alone::new("return redis.status_reply(string.sub(args[1], 1, tonumber(args[2])))");
    let mut is_line =
        |text: &[u8], len: usize| match alone.call(&[], &[text, len.to_string().as_bytes()]) {
            Ok(Reply::Status(line)) => {
                assert_eq!(line, text[..len]);
                true
            }
            outcome => {
                let failure = failure(outcome);
                let Failure::GivenUp(given_up) = &failure else {
                    panic!("{failure:?}");
                };
                assert_eq!(given_up.name, "line");
                false
            }
        };
    for len in (0..=24).chain([255, 500, 511, 512]) {
        for place in 0..len + 8 {
            for ending in *b"\0\r\n" {
                let mut text = vec![b'x'; len + 8];
                text[place] = ending;
                assert_eq!(
                    is_line(&text, len),
                    place >= len,
                    "{ending} at {place} of {len}"
                );
            }
        }
    }
    // A byte more or less, the highest bit, two of them side by side.
    let others: Vec<u8> = (0..=u8::MAX)
        .filter(|byte| !b"\0\r\n".contains(byte))
        .collect();
    assert!(is_line(&others, others.len()));
    for byte in others {
        assert!(is_line(&[byte; 16], 15), "{byte}");
        let mut text = [byte; 16];
        text[9] = b'\n';
        assert!(!is_line(&text, 15), "{byte}");
    }
    assert!(!is_line(&[b'x'; 520], 513));
}

/// By body. The keys are `k1` and `k2`, the arguments `a` and `7`.
fn cases() -> Vec<(&'static str, Reply)> {
    use Reply::{Error, Integer, List, Nil, Status};
    vec![
        ("local x = 1", Nil),
        ("return nil", Nil),
        ("return false", Nil),
        ("return true", Integer(1)),
        ("return 0", Integer(0)),
        ("return -5", Integer(-5)),
        (
            "return 9007199254740991 + 1",
            Integer(9_007_199_254_740_992),
        ),
        ("return ''", text("")),
        ("return keys[2]", text("k2")),
        ("return args[2] + 1", Integer(8)),
        ("return keys[1] .. args[1] .. 5", text("k1a5")),
        (
            "return 'longer than sixteen bytes'",
            text("longer than sixteen bytes"),
        ),
        (
            "return redis.status_reply('FINE')",
            Status(b"FINE".to_vec()),
        ),
        ("return {ok = 'FINE'}", Status(b"FINE".to_vec())),
        (
            "return redis.error_reply('MY no')",
            Error(b"MY no".to_vec()),
        ),
        (
            "return redis.call('SET', keys[1], 'v')",
            Status(b"OK".to_vec()),
        ),
        ("return redis.call('GET', keys[2])", Nil),
        ("return {}", List(vec![])),
        (
            "return {1, 'two', true, false, keys[1], redis.status_reply('S'), 'the last of them'}",
            List(vec![
                Integer(1),
                text("two"),
                Integer(1),
                Nil,
                text("k1"),
                Status(b"S".to_vec()),
                text("the last of them"),
            ]),
        ),
        // A list ends at its first nil.
        (
            "return {1, args[1], args[3], 4}",
            List(vec![Integer(1), text("a")]),
        ),
        (
            "return redis.call('MGET', keys[2], keys[2])",
            List(vec![Nil, Nil]),
        ),
    ]
}

#[test]
fn every_kind_of_reply_arrives() {
    let engine = engine();
    let mut session = engine.session().expect("a session");
    let cases = cases();
    let names: Vec<String> = (0..cases.len())
        .map(|number| format!("f{number}"))
        .collect();
    let functions: Vec<(&str, &str)> = (names.iter().zip(&cases))
        .map(|(name, (body, _))| (name.as_str(), *body))
        .collect();
    let library = library(&compiler(&engine), &functions);
    let (keys, arguments): ([&[u8]; 2], [&[u8]; 2]) = ([b"k1", b"k2"], [b"a", b"7"]);

    let mut calls = library.calls();
    for (name, (body, expected)) in names.iter().zip(&cases) {
        let reply = library.call(&mut session, name, &keys, &arguments);
        assert_eq!(reply.expect(body), *expected, "{body}");
        calls.add(name, &keys, &arguments).expect("it is added");
    }
    // The same, one behind the other in one buffer.
    let replies = calls.run(&mut session).expect("they are executed");
    assert_eq!(replies.len(), cases.len());
    for (reply, (body, expected)) in replies.zip(&cases) {
        assert_eq!(reply.expect(body).to_owned(), *expected, "{body}");
    }
}

#[test]
fn a_script_has_no_name() {
    let engine = engine();
    let mut session = engine.session().expect("a session");
    let script = compiler(&engine).script(b"return ARGV[1] * 2");
    let script = script.expect("it is compiled");
    let reply = script.call(&mut session, "", &[], &[b"21"]);
    assert_eq!(reply.expect("a reply"), Reply::Integer(42));
}

#[test]
fn texts_of_every_length() {
    let mut alone = Alone::new("return args[1]");
    let bytes: Vec<u8> = (0..BPFDB_CALL_TEXT_MAX).map(|n| (n % 251) as u8).collect();
    let lengths = (0..40).chain([4095, 4096, 28 * 1024 - 1, 28 * 1024]);
    for len in lengths {
        let reply = alone.call(&[], &[&bytes[..len]]).expect("a reply");
        assert_eq!(reply, text(&bytes[..len]), "{len} bytes");
    }
}

#[test]
fn as_many_words_as_there_may_be() {
    const WORDS: usize = BPFDB_CALL_WORDS as usize;
    let mut alone = Alone::new(
        "return {#KEYS_, keys[1], keys[64], args[1], args[64]}"
            .replace("#KEYS_", "#keys + #args")
            .as_str(),
    );
    let words: Vec<Vec<u8>> = (0..WORDS).map(|n| n.to_string().into_bytes()).collect();
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let reply = alone.call(&words, &words).expect("a reply");
    let expected = [text("0"), text("63"), text("0"), text("63")];
    let expected = [vec![Reply::Integer(128)], expected.to_vec()].concat();
    assert_eq!(reply, Reply::List(expected));

    let more: Vec<&[u8]> = [&words[..], &[b"x"]].concat();
    for (keys, arguments) in [(&more, &words), (&words, &more)] {
        let refused = alone.call(keys, arguments);
        assert!(
            matches!(refused, Err(CallError::TooManyWords)),
            "{refused:?}"
        );
    }
}

#[test]
fn as_many_bytes_as_there_may_be() {
    let mut alone = Alone::new("return #args[1] + #args[2]");
    let half = vec![b'x'; BPFDB_CALL_WORDS_BYTES as usize / 2];
    let reply = alone.call(&[], &[&half, &half]).expect("a reply");
    assert_eq!(reply, Reply::Integer(2 * half.len() as i64));
    let refused = alone.call(&[b""], &[&half, &half, b"1"]);
    assert!(matches!(refused, Err(CallError::TooLong)), "{refused:?}");
}

#[test]
fn the_longest_list_arrives() {
    let elements = (1..64).map(|_| "args[1]").collect::<Vec<_>>().join(", ");
    let mut alone = Alone::new(&format!("return {{args[2], {elements}}}"));
    // All of them 28 KiB, and each of them with padding.
    let (each, first) = ([b'e'; 449], [b'f'; 28 * 1024 - 63 * 449]);
    for _ in 0..2 {
        let reply = alone.call(&[], &[&each, &first]).expect("a reply");
        let expected = [vec![text(first)], vec![text(each); 63]].concat();
        assert_eq!(reply, Reply::List(expected));
    }
}

#[test]
fn values_of_the_engine_are_read_and_written() {
    let mut alone = Alone::new(
        "redis.call('SET', keys[2], redis.call('GET', keys[1]) .. '!') return redis.call('STRLEN', keys[2])",
    );
    for len in [1, 15, 16, 17, 5000] {
        let value = vec![b'v'; len];
        alone.session.set(b"a", &value).expect("it is set");
        let reply = alone.call(&[b"a", b"b"], &[]).expect("a reply");
        assert_eq!(reply, Reply::Integer(len as i64 + 1));
        let written = alone.session.get(b"b").expect("it is read");
        assert_eq!(written, Some([value, b"!".to_vec()].concat()));
    }
}

#[test]
fn a_reply_is_read_where_it_lies() {
    let mut alone = Alone::new("return {'a', 2, 'c'}");
    let mut calls = alone.library.calls();
    calls.add("f", &[], &[]).expect("it is added");
    let mut replies = calls.run(&mut alone.session).expect("it is executed");
    let Some(Ok(ReplyRef::List(elements))) = replies.next() else {
        panic!("no list");
    };
    let all: Vec<ReplyRef<'_>> = elements.collect();
    assert_eq!(
        all,
        [
            ReplyRef::Text(b"a"),
            ReplyRef::Integer(2),
            ReplyRef::Text(b"c")
        ]
    );
    assert!(replies.next().is_none());
}
