//! A queue of procedures in the kernel: each element is taken once, and clients that wait for it get it
//! at once.

use std::collections::BTreeSet;
use std::thread;

use super::common::{Client, Reply};
use super::{all_kernel_calls, ask, back_to_kernel, kernel_calls, load, server, shown};

const PRODUCERS: usize = 3;
const CONSUMERS: usize = 3;
const ELEMENTS: usize = 300;

const LIBRARY: &str = "#!lua name=lib
redis.register_function('put', function(keys, args)
  redis.call('HINCRBY', keys[2], 'put', 1)
  return redis.call('RPUSH', keys[1], args[1])
end)
redis.register_function('take', function(keys)
  local element = redis.call('LPOP', keys[1])
  if not element then return false end
  redis.call('HINCRBY', keys[2], 'taken', 1)
  redis.call('SADD', keys[3], element)
  return element
end)
redis.register_function('score', function(keys, args)
  return redis.call('ZADD', keys[1], args[1], args[2])
end)";

/// Asks again after a conflict: it has left nothing.
fn ask_until_done(client: &mut Client, words: &[&str]) -> Reply {
    loop {
        let reply = ask(client, words);
        if !reply.text.starts_with(b"CONFLICT") {
            return reply;
        }
    }
}

fn produce(client: &mut Client, number: usize) {
    for element in 0..ELEMENTS {
        let element = format!("{number}.{element}");
        let words = ["FCALL", "put", "2", "queue", "counts", &element];
        let reply = ask_until_done(client, &words);
        assert!(reply.number().is_some(), "{reply}");
    }
}

/// Takes elements until all that are ever put have been taken, by whomever.
fn consume(client: &mut Client) -> Vec<String> {
    let all = (PRODUCERS * ELEMENTS).to_string().into_bytes();
    let mut taken = Vec::new();
    loop {
        let words = ["FCALL", "take", "3", "queue", "counts", "seen"];
        let reply = ask_until_done(client, &words);
        assert!(!reply.is_error(), "{reply}");
        if !reply.is_nil {
            taken.push(String::from_utf8(reply.text).expect("a text"));
        } else if ask_until_done(client, &["HGET", "counts", "taken"]).text == all {
            return taken;
        }
    }
}

fn exactly_once(connect: &(dyn Fn() -> Client + Sync)) {
    let taken = thread::scope(|scope| {
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|number| scope.spawn(move || produce(&mut connect(), number)))
            .collect();
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|_| scope.spawn(|| consume(&mut connect())))
            .collect();
        for producer in producers {
            producer.join().expect("no panic");
        }
        let consumers = consumers.into_iter();
        let taken = consumers.flat_map(|consumer| consumer.join().expect("no panic"));
        taken.collect::<Vec<String>>()
    });
    assert_eq!(taken.len(), PRODUCERS * ELEMENTS, "all of them");
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), taken.len());
}

#[test]
fn every_element_is_taken_once() {
    let server = server();
    let mut client = server.client();
    load(&mut client, LIBRARY);
    exactly_once(&|| server.client());
    assert!(
        all_kernel_calls(&mut client) > 0,
        "{}",
        shown(&mut client, "put")
    );
    let all = (PRODUCERS * ELEMENTS) as i64;
    assert_eq!(
        ask(&mut client, &["HGET", "counts", "put"]).text,
        all.to_string().as_bytes()
    );
    assert_eq!(ask(&mut client, &["SCARD", "seen"]).number(), Some(all));
    assert_eq!(ask(&mut client, &["EXISTS", "queue"]).number(), Some(0));
}

fn given_up(client: &mut Client, name: &str) -> i64 {
    let shown = shown(client, name);
    let reasons = shown.field("deoptimisations").expect("a field");
    reasons
        .field("waited_for")
        .and_then(Reply::number)
        .unwrap_or(0)
}

/// A client waits for the key that a call fills: the call is given up, and the daemon serves both. The
/// kernel answers none: the daemon would find out only by comparing, after a tenth of a second.
fn wakes(pushing: &mut Client, waiting: &mut Client, pop: &str, push: &[&str]) {
    super::wait_until("the kernel gives the call up", || {
        waiting.send(&super::common::words(pop));
        super::wait_until("it waits", || {
            ask(pushing, &["INFO", "clients"])
                .to_string()
                .contains("blocked_clients:1")
        });
        back_to_kernel(pushing);
        let reply = ask(pushing, push);
        assert_eq!(reply.number(), Some(1), "{reply}");
        let reply = waiting.reply();
        assert!(reply.starts_with(b"*"), "{}", super::common::show(&reply));
        given_up(pushing, push[1]) > 0
    });
    assert_eq!(
        kernel_calls(pushing, push[1]),
        0,
        "{}",
        shown(pushing, push[1])
    );
}

#[test]
fn clients_that_wait_get_what_is_pushed() {
    let server = server();
    let (mut pushing, mut waiting) = (server.client(), server.client());
    load(&mut pushing, LIBRARY);
    let put = ["FCALL", "put", "2", "queue", "counts", "x"];
    wakes(&mut pushing, &mut waiting, "BLPOP queue 0", &put);
    let score = ["FCALL", "score", "1", "scores", "1", "x"];
    wakes(&mut pushing, &mut waiting, "BZPOPMIN scores 0", &score);
}

/// The same where the daemon has the kernel run the call.
#[test]
fn clients_that_wait_get_what_the_daemons_clients_push() {
    let server = server();
    let (mut pushing, mut waiting) = (server.unix_client(), server.client());
    load(&mut pushing, &format!("{LIBRARY}{}", super::daemon::WARM));
    super::daemon::warm(&mut pushing, "warm", &["FCALL", "warm", "0"]);
    let put = ["FCALL", "put", "2", "queue", "counts", "x"];
    wakes(&mut pushing, &mut waiting, "BLPOP queue 0", &put);
}
