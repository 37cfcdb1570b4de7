//! Commands on small collections, in a process without a server: what reads a snapshot, and many in a
//! system call.

use bpfdb_procedures::inside::{Failure, Reply, ReplyRef};

use super::{Alone, compiler, engine, failure, library};

const FUNCTIONS: &[(&str, &str)] = &[
    (
        "score",
        "redis.call('HINCRBY', keys[2], 'games', 1)
         return redis.call('ZINCRBY', keys[1], args[2], args[1])",
    ),
    (
        "read",
        "return {redis.call('ZSCORE', keys[1], args[1]), redis.call('ZCARD', keys[1]),
           redis.call('HGET', keys[2], 'games'), redis.call('HGET', keys[2], 'none')}",
    ),
    ("put", "return redis.call('RPUSH', keys[1], args[1])"),
    ("take", "return redis.call('LPOP', keys[1])"),
];

fn text(text: &str) -> Reply {
    Reply::Text(text.as_bytes().to_vec())
}

#[test]
fn what_reads_takes_a_snapshot() {
    let engine = engine();
    let library = library(&compiler(&engine), FUNCTIONS);
    let read = library.unit().find("read").expect("it is compiled");
    assert!(read.reads);
    let mut session = engine.session().expect("a session");
    let keys: [&[u8]; 2] = [b"board", b"player"];
    for (points, sum) in [
        ("5", "5"),
        ("-7", "-2"),
        ("9007199254740000", "9007199254739998"),
    ] {
        let arguments = [&b"ann"[..], points.as_bytes()];
        let reply = library.call(&mut session, "score", &keys, &arguments);
        assert_eq!(reply.expect("a sum"), text(sum));
    }
    let reply = library
        .call(&mut session, "read", &keys, &[b"ann"])
        .expect("a list");
    let expected = vec![
        text("9007199254739998"),
        Reply::Integer(1),
        text("3"),
        Reply::Nil,
    ];
    assert_eq!(reply, Reply::List(expected));
}

/// A thousand elements are put and taken by calls of two batches, in their order.
#[test]
fn many_in_a_system_call() {
    const ELEMENTS: usize = 1000;
    let engine = engine();
    let library = library(&compiler(&engine), FUNCTIONS);
    let mut session = engine.session().expect("a session");
    let mut calls = library.calls();
    let element = |number: usize| format!("element {number}").into_bytes();
    for number in 0..ELEMENTS {
        calls
            .add("put", &[b"queue"], &[&element(number)])
            .expect("it is added");
    }
    let replies = calls.run(&mut session).expect("they are executed");
    for (number, reply) in replies.enumerate() {
        assert_eq!(reply, Ok(ReplyRef::Integer(number as i64 + 1)));
    }
    let mut calls = library.calls();
    for _ in 0..=ELEMENTS {
        calls.add("take", &[b"queue"], &[]).expect("it is added");
    }
    let mut replies = calls.run(&mut session).expect("they are executed");
    for number in 0..ELEMENTS {
        assert_eq!(replies.next(), Some(Ok(ReplyRef::Text(&element(number)))));
    }
    assert_eq!(replies.next(), Some(Ok(ReplyRef::Nil)));
}

/// What outgrows the kernel is given up, and nothing is left of the call.
#[test]
fn what_outgrows_a_run_is_given_up() {
    let mut alone = Alone::new(
        "redis.call('INCR', keys[2]) local n
         for i = 1, args[1] do n = redis.call('SADD', keys[1], i .. args[2]) end
         return redis.call('SCARD', keys[1])",
    );
    let keys: [&[u8]; 2] = [b"set", b"n"];
    let fits = alone.call(&keys, &[b"200", b"x"]).expect("it fits");
    assert_eq!(fits, Reply::Integer(200));
    let long = vec![b'x'; 300];
    for (count, element) in [(&b"1"[..], &long[..]), (b"500", &long[..250])] {
        let Failure::GivenUp(reason) = failure(alone.call(&keys, &[count, element])) else {
            panic!("of {} bytes", element.len());
        };
        assert!(
            ["collection", "fuel"].contains(&reason.name),
            "{}",
            reason.name
        );
        let count = alone.call(&keys, &[b"0", b""]).expect("it is there");
        assert_eq!(count, Reply::Integer(200));
    }
}

/// A value of another type, and one that is no number, end the call with their reasons.
#[test]
fn other_values_are_given_up() {
    let mut alone = Alone::new(
        "redis.call('SET', keys[2], 'new')
         redis.call('HSET', keys[1], 'f', args[1]) return redis.call('HINCRBY', keys[1], 'f', 1)",
    );
    for (key, value, expected) in [
        (&b"h"[..], &b"7"[..], None),
        (b"h", b"x", Some("collection")),
        (b"h", b"9007199254740992", Some("number_too_large")),
        (b"h2", b"9223372036854775807", Some("collection")),
    ] {
        let outcome = alone.call(&[key, b"other"], &[value]);
        match expected {
            None => assert_eq!(outcome.expect("a number"), Reply::Integer(8)),
            Some(expected) => match failure(outcome) {
                Failure::GivenUp(reason) => assert_eq!(reason.name, expected),
                other => panic!("{other:?}"),
            },
        }
    }
    alone.session.set(b"string", b"text").expect("it is set");
    match failure(alone.call(&[b"string", b"other"], &[b"1"])) {
        Failure::GivenUp(reason) => assert_eq!(reason.name, "value_type"),
        other => panic!("{other:?}"),
    }
}
