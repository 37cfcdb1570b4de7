//! Calls of clients that the daemon keeps, and of EVAL: the daemon has the kernel run them.

use super::common::{Client, wait_until};
use super::{ask, daemon_calls, load, server, shown};

/// A function that every library may have: once it is called by the daemon, all others are, too.
pub(super) const WARM: &str =
    "redis.register_function('warm', function() return redis.call('INCR', 'w') end)\n";

/// Repeats a request until the daemon has the kernel run it.
pub(super) fn warm(client: &mut Client, name: &str, words: &[&str]) {
    wait_until("the daemon has it run in the kernel", || {
        let reply = ask(client, words);
        assert!(!reply.is_error(), "{reply}");
        is_known(client, name) && daemon_calls(client, name) > 0
    });
}

/// A script of EVAL is compiled after some calls, and then after some more for the daemon.
#[test]
fn eval_runs_what_is_compiled() {
    let server = server();
    let mut client = server.client();
    let text = "redis.call('INCRBY', KEYS[1], ARGV[1]) return {KEYS[1], ARGV[1], false, true}";
    let sha = ask(&mut client, &["SCRIPT", "LOAD", text]).text;
    let sha = String::from_utf8(sha).expect("hexadecimal");
    let words = ["EVAL", text, "1", "sum", "3"];
    warm(&mut client, &sha, &words);

    let before = daemon_calls(&mut client, &sha);
    client.say("SET sum 0");
    for resp in ["2", "3"] {
        ask(&mut client, &["HELLO", resp]);
        let reply = ask(&mut client, &words);
        assert_eq!(reply.items.len(), 4, "{reply}");
        assert_eq!(reply.items[1].text, b"3");
        assert!(reply.items[2].is_nil);
        assert_eq!(reply.items[3].number(), Some(1));
    }
    assert_eq!(ask(&mut client, &["GET", "sum"]).text, b"6");
    assert_eq!(daemon_calls(&mut client, &sha), before + 2);

    // The form that may not write refuses it, as ever.
    let refused = ask(&mut client, &["EVAL_RO", text, "1", "sum", "3"]);
    assert!(refused.is_error(), "{refused}");
    assert_eq!(ask(&mut client, &["GET", "sum"]).text, b"6");
    // Within a transaction the interpreter runs it, as a part of that.
    for command in ["BEGIN", "SET sum 10"] {
        assert_eq!(client.say(command), "+OK\r\n");
    }
    ask(&mut client, &words);
    client.say("ROLLBACK");
    assert_eq!(ask(&mut client, &["GET", "sum"]).text, b"6");
    assert_eq!(daemon_calls(&mut client, &sha), before + 2);
}

/// It is forgotten with everything else, and not run any more.
#[test]
fn a_script_that_was_flushed_is_the_interpreters() {
    let server = server();
    let mut client = server.client();
    let text = "return redis.call('INCR', KEYS[1])";
    let words = ["EVAL", text, "1", "n"];
    let sha = ask(&mut client, &["SCRIPT", "LOAD", text]).text;
    let sha = String::from_utf8(sha).expect("hexadecimal");
    warm(&mut client, &sha, &words);
    assert_eq!(client.say("SCRIPT FLUSH"), "+OK\r\n");
    client.say("SET n 0");
    assert_eq!(ask(&mut client, &words).number(), Some(1));
    assert!(!is_known(&mut client, &sha));

    // With compiled procedures off, too.
    warm(&mut client, &sha, &words);
    assert_eq!(client.say("CONFIG SET compile-procedures no"), "+OK\r\n");
    client.say("SET n 0");
    assert_eq!(ask(&mut client, &words).number(), Some(1));
    assert!(!is_known(&mut client, &sha));
}

fn is_known(client: &mut Client, name: &str) -> bool {
    let all = ask(client, &["PROCEDURES"]);
    all.items.iter().any(|one| super::is(one, "name", name))
}

/// Errors are replies, and are counted as those of commands.
#[test]
fn errors_of_functions_are_told_and_counted() {
    let server = server();
    let mut client = server.unix_client();
    let text = format!(
        "#!lua name=lib\n{WARM}\
         redis.register_function('fails', function(keys) redis.call('INCR', keys[1]) \
         return redis.error_reply('SOLD out') end)"
    );
    load(&mut client, &text);
    warm(&mut client, "warm", &["FCALL", "warm", "0"]);
    let before = client.say("INFO errorstats");
    assert!(!before.contains("SOLD"), "{before}");
    let reply = ask(&mut client, &["FCALL", "fails", "1", "n"]);
    assert_eq!(reply.text, b"SOLD out");
    assert!(
        client
            .say("INFO errorstats")
            .contains("errorstat_SOLD:count=1")
    );
    assert_eq!(daemon_calls(&mut client, "fails"), 1);
    // An error that a function returns is a reply: what it did is kept.
    assert_eq!(ask(&mut client, &["GET", "n"]).text, b"1");
}

/// More words, and longer ones, than a call in the kernel may have.
#[test]
fn what_is_too_much_for_the_kernel_is_the_interpreters() {
    let server = server();
    let mut client = server.unix_client();
    let text = format!(
        "#!lua name=lib\n{WARM}\
         redis.register_function('last', function(keys, args) \
         redis.call('SET', 'n', 1) return #args[#args] end)"
    );
    load(&mut client, &text);
    warm(&mut client, "warm", &["FCALL", "warm", "0"]);
    let long = "x".repeat(60_000);
    assert_eq!(
        ask(&mut client, &["FCALL", "last", "0", &long]).number(),
        Some(60_000)
    );
    let mut many = vec!["FCALL", "last", "0"];
    many.extend(["word"; 200]);
    assert_eq!(ask(&mut client, &many).number(), Some(4));
    assert_eq!(daemon_calls(&mut client, "last"), 0);
    assert_eq!(
        ask(&mut client, &["FCALL", "last", "0", "abc"]).number(),
        Some(3)
    );
    assert_eq!(daemon_calls(&mut client, "last"), 1);
    let path = shown(&mut client, "last");
    assert!(super::is(&path, "path", "kernel"), "{path}");
}
