//! What fails leaves nothing, and says why.

use bpfdb::Status;
use bpfdb_procedures::NotReady;
use bpfdb_procedures::inside::{CallError, Failure, Reply};

use super::{Alone, compiler, engine, failure, library, number};

/// What comes after a write: the reason, a body, its argument.
const GUARDS: &[(&str, &str, &[u8])] = &[
    ("text_is_no_number", "return args[1] + 1", b"x"),
    (
        "number_too_large",
        "return args[1] + 1",
        b"9007199254740992",
    ),
    ("fraction", "return args[1] / 2", b"3"),
    ("minus_zero", "return 0 * args[1]", b"-5"),
    ("minus_zero", "return math.ceil(args[1] / 7)", b"-5"),
    ("type", "return #args[2]", b"x"),
    ("fuel", "while true do end", b""),
    (
        "heap",
        "local s = args[1] for i = 1, 20 do s = s .. s end return #s",
        b"x",
    ),
    ("key", "return redis.call('GET', '')", b""),
    (
        "value",
        "local s = args[1] for i = 1, 11 do s = s .. s end return {s, s}",
        b"0123456789",
    ),
    (
        "number_in_text",
        "return '' .. (args[1] + 0)",
        b"100000000000000",
    ),
    (
        "time",
        "return redis.call('EXPIRE', keys[1], args[1])",
        b"-1",
    ),
    (
        "time",
        "return redis.call('EXPIRE', keys[1], args[1])",
        b"4503599627370496",
    ),
    (
        "time",
        "return redis.call('SET', keys[2], 'v', 'EX', args[1])",
        b"0",
    ),
    ("line", "return redis.status_reply(args[1])", b"a\nb"),
    (
        "key",
        "local s = args[1] for i = 1, 6 do s = s .. s end return redis.call('SET', s, 'v')",
        b"0123456789",
    ),
    ("text_is_no_number", "return args[1] * 2", b"0x10"),
    ("text_is_no_number", "return args[1] - 1", b"-0"),
    ("minus_zero", "return args[1] / -7", b"0"),
    ("minus_zero", "return -args[1]", b"0"),
    ("fraction", "return args[1] % args[1]", b"0"),
    (
        "number_too_large",
        "return args[1] * args[1]",
        b"4503599627370496",
    ),
    (
        "number_too_large",
        "return redis.call('INCRBY', 'new', args[1]) + redis.call('INCRBY', 'new', args[1])",
        b"9007199254740991",
    ),
    (
        "counter",
        "redis.call('SET', keys[2], '9223372036854775807') return redis.call('INCR', keys[2])",
        b"",
    ),
    ("type", "return args[1] < 1", b"x"),
    (
        "fuel",
        "for i = 1, 100000 do redis.call('GET', keys[2]) end",
        b"",
    ),
    ("counter", "return redis.call('INCR', keys[2])", b""),
];

#[test]
fn every_guard_leaves_nothing_behind() {
    let engine = engine();
    let mut session = engine.session().expect("a session");
    let names: Vec<String> = (0..GUARDS.len())
        .map(|number| format!("f{number}"))
        .collect();
    let bodies: Vec<String> = GUARDS
        .iter()
        .map(|(_, body, _)| {
            format!("redis.call('SET', keys[1], 'new') redis.call('APPEND', keys[3], 'x') {body}")
        })
        .collect();
    let functions: Vec<(&str, &str)> = (names.iter().zip(&bodies))
        .map(|(name, body)| (name.as_str(), body.as_str()))
        .collect();
    let library = library(&compiler(&engine), &functions);
    for key in [b"a", b"b", b"c"] {
        session.set(key, b"old").expect("it is set");
    }
    for (name, (reason, body, argument)) in names.iter().zip(GUARDS) {
        let outcome = library.call(&mut session, name, &[b"a", b"b", b"c"], &[argument]);
        match failure(outcome) {
            Failure::GivenUp(given_up) => assert_eq!(given_up.name, *reason, "{body}"),
            other => panic!("{body}: {other}"),
        }
        for key in [b"a", b"b", b"c"] {
            let value = session.get(key).expect("it is read");
            assert_eq!(value.as_deref(), Some(&b"old"[..]), "{body}");
        }
    }
    assert_eq!(engine.stats().expect("figures").transactions, 0);
}

#[test]
fn an_error_that_is_returned_commits() {
    let mut alone = Alone::new("redis.call('SET', keys[1], '1') return redis.error_reply('MY no')");
    let reply = alone.call(&[b"k"], &[]).expect("a reply");
    assert_eq!(reply, Reply::Error(b"MY no".to_vec()));
    assert_eq!(number(&mut alone.session, b"k"), Some(1));
}

#[test]
fn a_key_that_another_has_locked_is_a_conflict() {
    let engine = engine();
    let mut session = engine.session().expect("a session");
    let mut holder = engine.session().expect("a session");
    let library = library(
        &compiler(&engine),
        &[(
            "f",
            "redis.call('SET', keys[1], 1) return redis.call('INCR', keys[2])",
        )],
    );
    holder.begin().expect("it begins");
    holder.set(b"n", b"5").expect("it is set");
    let outcome = library.call(&mut session, "f", &[b"m", b"n"], &[]);
    assert_eq!(failure(outcome), Failure::Engine(Status::Conflict));
    assert_eq!(session.get(b"m").expect("it is read"), None);
    holder.commit().expect("it commits");
    let reply = library.call(&mut session, "f", &[b"m", b"n"], &[]);
    assert_eq!(reply.expect("a reply"), Reply::Integer(6));
}

#[test]
fn within_a_transaction_calls_are_refused() {
    let mut alone = Alone::new("return redis.call('INCR', keys[1])");
    let refused = |alone: &mut Alone| {
        let outcome = alone.call(&[b"n"], &[]);
        assert!(
            matches!(outcome, Err(CallError::InTransaction)),
            "{outcome:?}"
        );
    };
    alone.session.begin().expect("it begins");
    alone.session.set(b"m", b"7").expect("it is set");
    refused(&mut alone);
    // The transaction goes on.
    alone.session.commit().expect("it commits");
    assert_eq!(number(&mut alone.session, b"m"), Some(7));

    alone.session.begin_deferred().expect("it begins");
    alone.session.set(b"m", b"8").expect("it waits");
    refused(&mut alone);
    alone.session.commit().expect("it commits");
    assert_eq!(number(&mut alone.session, b"m"), Some(8));

    alone.session.begin_read_only().expect("it begins");
    refused(&mut alone);
    alone.session.rollback().expect("it ends");
    let reply = alone.call(&[b"n"], &[]).expect("a reply");
    assert_eq!(reply, Reply::Integer(1));
}

#[test]
fn what_is_not_there_cannot_be_called() {
    let engine = engine();
    let mut session = engine.session().expect("a session");
    let library = library(
        &compiler(&engine),
        &[("f", "return 1"), ("g", "return string.rep('x', 3)")],
    );
    let outcome = library.call(&mut session, "h", &[], &[]);
    assert!(
        matches!(outcome, Err(CallError::NotReady(NotReady::NoFunction(ref name))) if name == "h"),
        "{outcome:?}"
    );
    let outcome = library.call(&mut session, "g", &[], &[]);
    match outcome {
        Err(CallError::NotReady(NotReady::NotCompiled { function, reasons })) => {
            assert_eq!((function.as_str(), reasons[0].line), ("g", 3));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(library.unit().ready.len(), 1);
    let reply = library.call(&mut session, "f", &[], &[]);
    assert_eq!(reply.expect("a reply"), Reply::Integer(1));
}

#[test]
fn a_text_that_is_no_library_has_no_functions() {
    let engine = engine();
    let mut session = engine.session().expect("a session");
    let library = compiler(&engine).library(b"#!lua name=x\nthis is no Lua");
    let library = library.expect("it is a library without functions");
    let outcome = library.call(&mut session, "f", &[], &[]);
    assert!(
        matches!(
            outcome,
            Err(CallError::NotReady(NotReady::NotCompiled { .. }))
        ),
        "{outcome:?}"
    );
    let mut calls = library.calls();
    assert_eq!(calls.run(&mut session).expect("nothing to do").len(), 0);
}

/// Its number means another session there.
#[test]
fn a_session_of_another_engine_is_refused() {
    let mut alone = Alone::new("return redis.call('INCR', keys[1])");
    let other = engine();
    let mut session = other.session().expect("a session");
    let outcome = alone.library.call(&mut session, "f", &[b"n"], &[]);
    assert!(
        matches!(outcome, Err(CallError::OtherEngine)),
        "{outcome:?}"
    );
    assert_eq!(session.get(b"n").expect("it is read"), None);
    assert_eq!(number(&mut alone.session, b"n"), None);
}

/// The verifier follows so many jumps and no more. Who has too many keeps the others from nothing,
/// be they longer.
#[test]
fn a_function_that_is_too_complex_is_left() {
    let sums = "n = n % -1000 + #keys ".repeat(1000);
    let body = format!("local n = 0 while n < 5000 do {sums} end return n");
    let long = format!("local n = 0 {} return n", "n = #keys ".repeat(4000));
    let engine = engine();
    let functions = [("sums", &body[..]), ("one", "return 1"), ("long", &long)];
    let library = library(&compiler(&engine), &functions);
    let mut session = engine.session().expect("a session");
    for (name, expected) in [("one", 1), ("long", 0)] {
        let reply = library.call(&mut session, name, &[], &[]);
        assert!(
            matches!(reply, Ok(Reply::Integer(n)) if n == expected),
            "{reply:?}"
        );
    }
    let sums = library.call(&mut session, "sums", &[], &[]);
    let Err(CallError::NotReady(NotReady::NotCompiled { reasons, .. })) = sums else {
        panic!("{sums:?}");
    };
    let reason = &reasons[0].reason;
    assert!(reason.contains("too many ways"), "{reason}");
}
