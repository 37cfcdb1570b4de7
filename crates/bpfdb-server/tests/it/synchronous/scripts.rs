//! What replies of scripts and functions expose, and replies about functions.

use super::common::lent::logged;
use super::common::{Client, Reply, request, show, wait_until};
use super::{WHILE, is_told_nothing, send, settle, sync, told};

const GET: &str = "return redis.call('get', KEYS[1])";

/// What changes nothing, and its reply: these tell of `new`, which has just been set to a text,
/// and of `gone`, which has just been deleted; of the libraries `fresh`, which has just been
/// loaded, and `dropped`, which has just been deleted. `old` and `lib` have been there for long.
/// `PAYLOAD` stands for what FUNCTION DUMP gave before.
const TELLING: &[(&[&str], &str)] = &[
    (&["EVAL", GET, "1", "new"], "$4\r\ntext\r\n"),
    (&["EVAL", GET, "1", "gone"], "$-1\r\n"),
    (&["EVAL_RO", GET, "1", "new"], "$4\r\ntext\r\n"),
    (&["EVAL_RO", GET, "1", "gone"], "$-1\r\n"),
    (&["EVALSHA", "SHA", "1", "new"], "$4\r\ntext\r\n"),
    (&["EVALSHA", "SHA", "1", "gone"], "$-1\r\n"),
    (&["EVALSHA_RO", "SHA", "1", "new"], "$4\r\ntext\r\n"),
    (
        &["EVAL", "return redis.call('keys', 'n*')", "0"],
        "*1\r\n$3\r\nnew\r\n",
    ),
    (
        &["EVAL", "return redis.call('set', 'new', 'x', 'nx')", "0"],
        "$-1\r\n",
    ),
    (&["EVAL", "return redis.call('del', 'gone')", "0"], ":0\r\n"),
    (
        &["EVAL", "return redis.pcall('incr', 'new')", "0"],
        "-ERR value is not an integer or out of range\r\n",
    ),
    (
        &[
            "EVAL_RO",
            "return redis.error_reply('SEEN ' .. redis.call('get', 'new'))",
            "0",
        ],
        "-SEEN text\r\n",
    ),
    (&["FCALL", "lib", "1", "new"], "$4\r\ntext\r\n"),
    (&["FCALL", "lib", "1", "gone"], "$-1\r\n"),
    (&["FCALL_RO", "lib", "1", "new"], "$4\r\ntext\r\n"),
    (&["FCALL_RO", "lib", "1", "gone"], "$-1\r\n"),
    (&["FCALL", "fresh", "0"], ":1\r\n"),
    (
        &["FCALL", "fresh", "none"],
        "-ERR Bad number of keys provided\r\n",
    ),
    (
        &["FCALL_RO", "fresh", "0"],
        "-ERR Can not execute a script with write flag using *_ro command.\r\n",
    ),
    (&["FCALL", "dropped", "0"], "-ERR Function not found\r\n"),
    (&["FCALL_RO", "dropped", "0"], "-ERR Function not found\r\n"),
    (&["FUNCTION", "LIST", "LIBRARYNAME", "dropped"], "*0\r\n"),
    (
        &["FUNCTION", "DELETE", "dropped"],
        "-ERR Library not found\r\n",
    ),
    (
        &["FUNCTION", "LOAD", "FRESH"],
        "-ERR Library 'fresh' already exists\r\n",
    ),
    (
        &["FUNCTION", "LOAD", "CLASH"],
        "-ERR Function fresh already exists\r\n",
    ),
    (
        &["FUNCTION", "RESTORE", "PAYLOAD"],
        "-ERR Library lib already exists\r\n",
    ),
];

/// Their replies are long, or depend on the others: a script that looks for `gone` has a record
/// for its lock, and DBSIZE counts it.
const MORE: &[&[&str]] = &[
    &["EVAL", "return redis.call('dbsize')", "0"],
    &["EVAL_RO", "return redis.call('dbsize')", "0"],
    &["FUNCTION", "LIST"],
    &["FUNCTION", "LIST", "WITHCODE"],
    &["FUNCTION", "DUMP"],
    &["FUNCTION", "STATS"],
];

/// What writes, by itself: nothing is replied before it is durable.
const WRITING: &[&[&str]] = &[
    &["EVAL", "return redis.call('set', 'a', '1')", "0"],
    &["EVAL", "redis.call('incr', 'b') return 7", "0"],
    &["FCALL", "writer", "0"],
    &["FUNCTION", "LOAD", "MORE"],
    &["FUNCTION", "LOAD", "REPLACE", "FRESH"],
    &["FUNCTION", "DELETE", "lib"],
    &["FUNCTION", "RESTORE", "PAYLOAD", "REPLACE"],
    &["FUNCTION", "FLUSH"],
];

fn library(name: &str, function: &str, body: &str, flags: &str) -> String {
    format!(
        "#!lua name={name}\n\
         redis.register_function{{function_name='{function}', flags={{{flags}}}, \
         callback=function(keys, args) {body} end}}"
    )
}

fn load(client: &mut Client, text: &str) {
    let reply = client.ask(&[b"FUNCTION", b"LOAD", text.as_bytes()]);
    assert!(reply.starts_with(b"$"), "{}", show(&reply));
}

/// What stands for itself in no request.
struct Texts {
    sha: String,
    payload: Vec<u8>,
    fresh: String,
    clash: String,
    more: String,
}

impl Texts {
    /// What has been there for long.
    fn make(writer: &mut Client) -> Self {
        let sha = writer.ask(&[b"SCRIPT", b"LOAD", GET.as_bytes()]);
        let get = "return redis.call('get', keys[1])";
        load(writer, &library("lib", "lib", get, "'no-writes'"));
        let incr = "return redis.call('incr', 'n')";
        load(writer, &library("writer", "writer", incr, ""));
        load(
            writer,
            &library("dropped", "dropped", "return 0", "'no-writes'"),
        );
        assert_eq!(writer.say("MSET old 1 gone 1"), "+OK\r\n");
        Self {
            sha: String::from_utf8(body(&sha)).expect("hexadecimal"),
            payload: body(&writer.ask(&[b"FUNCTION", b"DUMP"])),
            fresh: library("fresh", "fresh", "return 1", ""),
            clash: library("clash", "fresh", "return 1", ""),
            more: library("more", "more", "return 1", ""),
        }
    }

    fn request(&self, words: &[&str]) -> Vec<u8> {
        let words: Vec<&[u8]> = (words.iter())
            .map(|&word| match word {
                "SHA" => self.sha.as_bytes(),
                "PAYLOAD" => &self.payload,
                "FRESH" => self.fresh.as_bytes(),
                "CLASH" => self.clash.as_bytes(),
                "MORE" => self.more.as_bytes(),
                word => word.as_bytes(),
            })
            .collect();
        request(&words)
    }
}

/// A bulk string without its frame.
fn body(reply: &[u8]) -> Vec<u8> {
    let line = reply.iter().position(|&byte| byte == b'\n');
    reply[line.expect("a line") + 1..reply.len() - 2].to_vec()
}

/// What has just happened. The daemon has seen that, too: it has called and listed functions.
fn write(writer: &mut Client, texts: &Texts) {
    for (command, reply) in [
        ("SET new text", "+OK\r\n"),
        ("DEL gone", ":1\r\n"),
        ("FUNCTION DELETE dropped", "+OK\r\n"),
    ] {
        assert_eq!(writer.say(command), reply);
    }
    load(writer, &texts.fresh);
    assert_eq!(writer.say("FCALL fresh 0"), ":1\r\n");
}

#[test]
fn scripts_and_functions_wait_for_what_they_tell_of() {
    let (disk, server) = logged();
    let mut writer = server.client();
    let texts = Texts::make(&mut writer);
    let known = TELLING.iter().map(|&(words, reply)| (words, Some(reply)));
    let all: Vec<_> = known
        .chain(MORE.iter().map(|&words| (words, None)))
        .collect();
    let mut readers: Vec<Client> = all.iter().map(|_| sync(&server)).collect();
    settle(&disk, &mut writer);
    write(&mut writer, &texts);
    for (reader, (words, _)) in readers.iter_mut().zip(&all) {
        reader.send(&texts.request(words));
    }
    std::thread::sleep(WHILE);
    let early: Vec<String> = (readers.iter_mut().zip(&all))
        .filter_map(|(reader, (words, _))| {
            let told = reader.replies_at_hand();
            (!told.is_empty()).then(|| format!("{words:?}: {}", show(&told[0])))
        })
        .collect();
    assert!(early.is_empty(), "{early:#?}");
    disk.hold(false);
    for (reader, (words, wanted)) in readers.iter_mut().zip(&all) {
        let reply = reader.reply();
        match wanted {
            Some(wanted) => assert_eq!(show(&reply), show(wanted.as_bytes()), "{words:?}"),
            None => assert!(!reply.starts_with(b"-"), "{words:?}: {}", show(&reply)),
        }
    }
}

#[test]
fn what_scripts_and_functions_write_is_told_when_it_is_durable() {
    for words in WRITING {
        let (disk, server) = logged();
        let mut writer = server.client();
        let texts = Texts::make(&mut writer);
        load(&mut writer, &texts.fresh);
        let mut own = sync(&server);
        settle(&disk, &mut writer);
        own.send(&texts.request(words));
        is_told_nothing(&mut own, &format!("{words:?}"));
        disk.hold(false);
        let reply = own.reply();
        assert!(!reply.starts_with(b"-"), "{words:?}: {}", show(&reply));
    }
}

/// So the tests above do not pass with a server that never replies.
#[test]
fn scripts_tell_at_once_of_what_has_been_durable_for_long() {
    let (disk, server) = logged();
    let (mut writer, mut reader) = (server.client(), sync(&server));
    let texts = Texts::make(&mut writer);
    settle(&disk, &mut writer);
    assert_eq!(writer.say("SET new text"), "+OK\r\n");
    for words in [
        &["EVAL_RO", GET, "1", "old"],
        &["EVALSHA_RO", "SHA", "1", "old"],
        &["FCALL_RO", "lib", "1", "old"],
    ] {
        reader.send(&texts.request(words));
        assert_eq!(told(&mut reader), [show(b"$1\r\n1\r\n")], "{words:?}");
    }
    disk.hold(false);
}

/// A script that is part of a client's transaction.
#[test]
fn a_script_in_a_block_or_a_transaction_waits() {
    for block in [&["MULTI", "EXEC"], &["BEGIN", "COMMIT"]] {
        let (disk, server) = logged();
        let mut writer = server.client();
        let texts = Texts::make(&mut writer);
        let (mut scripts, mut functions) = (sync(&server), sync(&server));
        settle(&disk, &mut writer);
        write(&mut writer, &texts);
        for (own, words) in [
            (&mut scripts, &["EVAL", GET, "1", "new"][..]),
            (&mut functions, &["FUNCTION", "LIST"]),
        ] {
            send(own, &block[..1]);
            own.send(&texts.request(words));
            send(own, &block[1..]);
        }
        for own in [&mut scripts, &mut functions] {
            let told = told(own).concat();
            assert!(!told.contains("text") && !told.contains("fresh"), "{told}");
        }
        disk.hold(false);
        for (own, word) in [(&mut scripts, "text"), (&mut functions, "fresh")] {
            super::common::wait_until("it is told", || {
                String::from_utf8_lossy(&own.reply()).contains(word)
            });
        }
    }
}

/// Has the daemon have the kernel run the calls of this function: true if it does now.
fn is_run_in_kernel(client: &mut Client, function: &str, words: &[&[u8]]) -> bool {
    let reply = client.ask(words);
    assert!(!reply.starts_with(b"-"), "{}", show(&reply));
    let all = Reply::parse(&client.ask(&[b"PROCEDURES"]))
        .expect("a whole reply")
        .0;
    let calls = |one: &Reply| one.field("calls_by_daemon").and_then(Reply::number);
    let is_named = |one: &&Reply| {
        one.field("name")
            .is_some_and(|name| name.text == function.as_bytes())
    };
    all.items.iter().find(is_named).and_then(calls) > Some(0)
}

/// The same of calls that the kernel runs: what they write, what they tell of others' writes,
/// and that reading what has been durable for long waits for nothing.
#[test]
fn compiled_functions_wait_for_what_they_tell_of() {
    let (disk, server) = logged();
    let mut writer = server.client();
    let texts = Texts::make(&mut writer);
    let look =
        "if redis.call('exists', keys[1]) == 0 then redis.call('set', keys[2], 'x') end return 7";
    load(&mut writer, &library("look", "look", look, ""));
    let [mut adds, mut looks, mut reads] = [0; 3].map(|_| sync(&server));
    wait_until("the daemon has calls run in the kernel", || {
        is_run_in_kernel(&mut adds, "writer", &[b"FCALL", b"writer", b"0"])
            && is_run_in_kernel(
                &mut looks,
                "look",
                &[b"FCALL", b"look", b"2", b"gone", b"y"],
            )
    });
    settle(&disk, &mut writer);
    assert_eq!(writer.say("SET new text"), "+OK\r\n");

    reads.send(&texts.request(&["FCALL_RO", "lib", "1", "old"]));
    assert_eq!(told(&mut reads), [show(b"$1\r\n1\r\n")]);
    reads.send(&texts.request(&["FCALL_RO", "lib", "1", "new"]));
    adds.send(&request(&[b"FCALL", b"writer", b"0"]));
    // It writes nothing, and exposes that `new` is there.
    looks.send(&request(&[b"FCALL", b"look", b"2", b"new", b"z"]));
    for (client, what) in [
        (&mut reads, "reads"),
        (&mut adds, "adds"),
        (&mut looks, "looks"),
    ] {
        is_told_nothing(client, what);
    }
    disk.hold(false);
    assert_eq!(show(&reads.reply()), show(b"$4\r\ntext\r\n"));
    assert!(adds.reply().starts_with(b":"));
    assert_eq!(looks.reply(), b":7\r\n");
}
