//! Many calls in a system call.

use std::time::Duration;

use bpfdb::{Engine, Options, Status};
use bpfdb_procedures::NotReady;
use bpfdb_procedures::inside::{CallError, Failure, Reply, ReplyRef};

use super::{Alone, compiler, library, number, options};

/// Every third call is given up, every fifth returns an error.
const MIXED: &str = "local n = tonumber(args[1])
    redis.call('INCRBY', keys[1], n)
    if n % 3 == 0 then return n / 0 end
    if n % 5 == 0 then return redis.error_reply('MY five') end
    return {n, args[1]}";

#[test]
fn each_call_has_its_own_result() {
    for len in [1, 2, 1000, 3000] {
        let mut alone = Alone::new(MIXED);
        let mut calls = alone.library.calls();
        for n in 1..=len {
            let n = n.to_string();
            calls
                .add("f", &[b"sum"], &[n.as_bytes()])
                .expect("it is added");
        }
        let replies = calls.run(&mut alone.session).expect("they are executed");
        assert_eq!(replies.len(), len as usize);
        let mut sum = 0;
        for (reply, n) in replies.zip(1..) {
            match reply {
                Err(Failure::GivenUp(reason)) => assert_eq!((reason.name, n % 3), ("fraction", 0)),
                Ok(ReplyRef::Error(text)) => assert_eq!((text, n % 5), (&b"MY five"[..], 0)),
                Ok(reply) => {
                    let text = n.to_string().into_bytes();
                    let expected = Reply::List(vec![Reply::Integer(n), Reply::Text(text)]);
                    assert_eq!(reply.to_owned(), expected);
                }
                other => panic!("{other:?}"),
            }
            sum += if n % 3 == 0 { 0 } else { n as u64 };
        }
        assert_eq!(number(&mut alone.session, b"sum"), (sum > 0).then_some(sum));
    }
}

/// Calls and replies have room for some of these at a time.
#[test]
fn long_calls_and_replies_take_several_turns() {
    let mut alone = Alone::new("redis.call('INCR', keys[1]) return args[1] .. '.'");
    let mut calls = alone.library.calls();
    let words: Vec<Vec<u8>> = (0..100)
        .map(|n| vec![b'a' + n % 26; 200 * usize::from(n)])
        .collect();
    for word in &words {
        calls.add("f", &[b"n"], &[word]).expect("it is added");
    }
    for _ in 0..2 {
        let replies = calls.run(&mut alone.session).expect("they are executed");
        assert_eq!(replies.len(), words.len());
        for (reply, word) in replies.zip(&words) {
            let expected = [word.as_slice(), b"."].concat();
            assert_eq!(reply, Ok(ReplyRef::Text(&expected)));
        }
    }
    assert_eq!(number(&mut alone.session, b"n"), Some(200));
}

/// A system call ends after some milliseconds, and the next one goes on.
#[test]
fn long_calls_do_not_keep_the_processor() {
    let mut alone = Alone::new(
        "local n = 0 for i = 1, 50000 do n = n + i end redis.call('INCR', keys[1]) return n",
    );
    let mut calls = alone.library.calls();
    for _ in 0..100 {
        calls.add("f", &[b"n"], &[]).expect("it is added");
    }
    let replies = calls.run(&mut alone.session).expect("they are executed");
    assert!(
        replies
            .clone()
            .all(|reply| reply == Ok(ReplyRef::Integer(1_250_025_000)))
    );
    assert_eq!(replies.len(), 100);
    assert_eq!(number(&mut alone.session, b"n"), Some(100));
}

#[test]
fn calls_can_be_run_again_and_cleared() {
    let mut alone = Alone::new("return redis.call('INCRBY', keys[1], args[1])");
    let mut calls = alone.library.calls();
    assert!(calls.is_empty());
    calls.add("f", &[b"n"], &[b"5"]).expect("it is added");
    // One that cannot be added leaves the others.
    let refused = calls.add("g", &[], &[]);
    assert!(matches!(
        refused,
        Err(CallError::NotReady(NotReady::NoFunction(_)))
    ));
    assert_eq!(calls.len(), 1);
    for expected in [5, 10, 15] {
        let mut replies = calls.run(&mut alone.session).expect("it is executed");
        assert_eq!(replies.next(), Some(Ok(ReplyRef::Integer(expected))));
    }
    calls.clear();
    assert_eq!((calls.len(), calls.replies().len()), (0, 0));
    assert_eq!(
        calls.run(&mut alone.session).expect("nothing to do").len(),
        0
    );
    assert_eq!(number(&mut alone.session, b"n"), Some(15));
}

/// A transaction that is refused stays open, and nothing of the batch is executed.
#[test]
fn a_batch_is_no_part_of_a_transaction() {
    let mut alone = Alone::new("return redis.call('INCR', keys[1])");
    let mut calls = alone.library.calls();
    calls.add("f", &[b"n"], &[]).expect("it is added");
    alone.session.begin().expect("it begins");
    let refused = calls.run(&mut alone.session);
    assert!(matches!(refused, Err(CallError::InTransaction)));
    assert_eq!(calls.replies().len(), 0);
    alone.session.rollback().expect("it ends");
    assert_eq!(number(&mut alone.session, b"n"), None);
}

/// The engine starts with a little memory, and adds more while calls wait for it.
#[test]
fn memory_is_added_while_calls_run() {
    let engine = Engine::create(&Options {
        memory_limit: 256 << 20,
        memory_ahead: 0,
        ..options()
    });
    let engine = engine.expect("the engine starts");
    let mut session = engine.session().expect("a session");
    let library = library(
        &compiler(&engine),
        &[("f", "return redis.call('SET', keys[1], args[1])")],
    );
    let value = vec![b'v'; 8000];
    let mut calls = library.calls();
    for n in 0..10_000 {
        let key = format!("key:{n}");
        calls
            .add("f", &[key.as_bytes()], &[&value])
            .expect("it is added");
    }
    let replies = calls.run(&mut session).expect("they are executed");
    for reply in replies {
        assert_eq!(reply, Ok(ReplyRef::Status(b"OK")));
    }
    assert_eq!(engine.stats().expect("figures").records, 10_000);
}

/// Without memory a call fails by itself, and those that need none go on.
#[test]
fn a_call_without_memory_fails_alone() {
    let engine = Engine::create(&Options {
        memory_limit: 32 << 20,
        ..options()
    });
    let engine = engine.expect("the engine starts");
    let mut session = engine.session().expect("a session");
    let library = library(
        &compiler(&engine),
        &[
            (
                "set",
                "redis.call('INCR', keys[2]) return redis.call('SET', keys[1], args[1])",
            ),
            ("get", "return 7"),
        ],
    );
    let value = vec![b'v'; 16_000];
    let mut calls = library.calls();
    for n in 0..3000 {
        let key = format!("key:{n}");
        calls
            .add("set", &[key.as_bytes(), b"n"], &[&value])
            .expect("it is added");
        calls.add("get", &[], &[]).expect("it is added");
    }
    let replies = calls.run(&mut session).expect("they are executed");
    let (mut set, mut failed) = (0, 0);
    for reply in replies {
        match reply {
            Ok(ReplyRef::Status(_)) => set += 1,
            Ok(reply) => assert_eq!(reply, ReplyRef::Integer(7)),
            Err(failure) => {
                assert_eq!(failure, Failure::Engine(Status::OutOfMemory));
                failed += 1;
            }
        }
    }
    assert!(set > 0 && failed > 0, "{set} of 3000, {failed} failed");
    assert_eq!(set + failed, 3000);
    assert_eq!(number(&mut session, b"n"), Some(set));
}

/// With a log the session knows what its replies depend on.
#[test]
fn replies_depend_on_their_commits() {
    let engine = Engine::create(&Options {
        log_ring: 1 << 20,
        ..options()
    });
    let engine = engine.expect("the engine starts");
    let mut session = engine.session().expect("a session");
    session.keep_depends(true);
    let library = library(
        &compiler(&engine),
        &[
            ("up", "return redis.call('INCR', keys[1])"),
            ("read", "return redis.call('GET', keys[1])"),
        ],
    );
    let mut before = session.depends();
    for function in ["up", "read"] {
        // A snapshot begins an epoch: what comes is later.
        let mut other = engine.session().expect("a session");
        other.begin_read_only().expect("it begins");
        other.commit().expect("it ends");
        library
            .call(&mut session, function, &[b"n"], &[])
            .expect("a reply");
        assert!(session.depends() > before, "{function}");
        before = session.depends();
    }
}

/// Each of them ends when its fuel does.
#[test]
fn a_batch_of_endless_loops_ends() {
    let mut alone = Alone::new("while true do end");
    let mut calls = alone.library.calls();
    for _ in 0..50 {
        calls.add("f", &[], &[]).expect("it is added");
    }
    let begun = std::time::Instant::now();
    let replies = calls.run(&mut alone.session).expect("they are executed");
    assert_eq!(
        replies
            .filter(|reply| matches!(reply, Err(Failure::GivenUp(why)) if why.name == "fuel"))
            .count(),
        50
    );
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
}
