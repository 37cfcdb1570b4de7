//! A call of a function is a transaction, as that of a script; and so is a change of libraries.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::common::{AtEnd, Client, request, wait_until};
use super::{alone, ask, library, load, text};

#[test]
fn a_function_that_fails_leaves_nothing() {
    let server = alone();
    let mut client = server.client();
    load(
        &mut client,
        "half",
        "redis.call('set', 'half', '1') error('stop')",
    );
    assert!(
        client
            .say("fcall half 0")
            .starts_with("-ERR user_function:2: stop script: half")
    );
    assert_eq!(client.say("exists half"), ":0\r\n");
}

#[test]
fn calls_and_changes_are_part_of_the_clients_transaction() {
    let server = alone();
    let (mut client, mut other) = (server.client(), server.client());
    load(&mut client, "up", "return redis.call('incr', 'n')");
    // BEGIN … ROLLBACK: the new library is seen inside, and gone after.
    client.say("begin");
    assert_eq!(client.say("fcall up 0"), ":1\r\n");
    load(&mut client, "up", "return 'new'");
    load(&mut client, "more", "return 'more'");
    assert_eq!(client.say("fcall up 0"), "$3\r\nnew\r\n");
    assert_eq!(client.say("fcall more 0"), "$4\r\nmore\r\n");
    assert!(
        client
            .say("function stats")
            .contains("libraries_count\r\n:2")
    );
    assert_eq!(client.say("function delete up"), "+OK\r\n");
    assert!(
        client
            .say("fcall up 0")
            .starts_with("-ERR Function not found")
    );
    // Others meet the lock, or see what is committed.
    assert!(other.say("fcall up 0").contains("CONFLICT"));
    assert!(
        other
            .say("function stats")
            .contains("libraries_count\r\n:1")
    );
    assert_eq!(client.say("rollback"), "+OK\r\n");
    for client in [&mut client, &mut other] {
        assert_eq!(client.say("fcall more 0"), "-ERR Function not found\r\n");
        assert!(client.say("fcall up 0").starts_with(':'));
    }
    // BEGIN … COMMIT, which the kernel may execute: nothing in between tells the daemon.
    client.say("begin");
    load(&mut client, "up", "return 'newer'");
    let commit = [request(&[b"GET", b"x"]), request(&[b"COMMIT"])];
    for one in &commit {
        client.send(one);
        client.reply();
    }
    for client in [&mut client, &mut other] {
        assert_eq!(client.say("fcall up 0"), "$5\r\nnewer\r\n");
    }
}

#[test]
fn calls_and_changes_between_multi_and_exec() {
    let server = alone();
    let (mut client, mut other) = (server.client(), server.client());
    client.say("multi");
    let up = library("up", "return redis.call('incr', 'n')");
    assert_eq!(ask(&mut client, &["FUNCTION", "LOAD", &up]), "+QUEUED\r\n");
    client.say("fcall up 0");
    client.say("fcall up 0");
    client.say("function delete nope");
    assert_eq!(
        client.say("exec"),
        "*4\r\n$2\r\nup\r\n:1\r\n:2\r\n-ERR Library not found\r\n"
    );
    assert_eq!(other.say("fcall up 0"), ":3\r\n");
    // An Error of the engine rolls all of it back, the library too.
    client.say("multi");
    let new = library("new", "return 1");
    ask(&mut client, &["FUNCTION", "LOAD", &new]);
    client.say("set a 1");
    other.say("begin");
    other.say("set a 2");
    assert!(client.say("exec").starts_with("-CONFLICT "));
    other.say("rollback");
    assert_eq!(other.say("fcall new 0"), "-ERR Function not found\r\n");
    // Of a block that only reads: one snapshot.
    client.say("multi");
    client.say("function dump");
    client.say("function list");
    assert!(ask(&mut client, &["EXEC"]).starts_with("*2\r\n$"));
}

/// While functions increment two counters, the library is replaced: no call is lost, or
/// executed by halves of two libraries.
#[test]
fn libraries_are_replaced_under_load() {
    const CLIENTS: usize = 4;
    const CALLS: usize = 400;
    let server = alone();
    let body = |version: usize| {
        format!(
            "redis.call('incr', 'a') redis.call('incr', 'b') redis.call('set', 'version', {version}) return {version}"
        )
    };
    load(&mut server.client(), "both", &body(0));
    let over = AtomicBool::new(false);
    let versions = thread::scope(|scope| {
        let _end = AtEnd::of(&over);
        let replacing = scope.spawn(|| {
            let (mut client, mut version) = (server.client(), 0);
            while !over.load(Ordering::Relaxed) {
                version += 1;
                load(&mut client, "both", &body(version));
                // It is there from the reply on.
                let reply = client.say("fcall both 0");
                assert_eq!(reply, format!(":{version}\r\n"));
            }
            version
        });
        let calling: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let (mut client, mut last) = (server.client(), 0);
                    for _ in 0..CALLS {
                        let reply = client.say("fcall both 0");
                        let version = reply.trim_start_matches(':').trim_end();
                        let version: usize = version.parse().expect(&reply);
                        assert!(version >= last, "{version} after {last}");
                        last = version;
                    }
                })
            })
            .collect();
        for thread in calling {
            thread.join().expect("no panic");
        }
        over.store(true, Ordering::Relaxed);
        replacing.join().expect("no panic")
    });
    let mut client = server.client();
    let sum = (CLIENTS * CALLS + versions).to_string();
    let expected = format!("${}\r\n{sum}\r\n", sum.len());
    assert_eq!(client.say("get a"), expected);
    assert_eq!(client.say("get b"), expected);
    assert!(versions > 1, "{versions}");
}

#[test]
fn a_library_that_fails_leaves_the_old_one() {
    let server = alone();
    let mut client = server.client();
    load(&mut client, "lib", "return 1");
    for body in [
        "x = 1",
        "return (",
        "",
        "while true do end",
        "redis.register_function('other', 1)",
    ] {
        let text = format!("#!lua name=lib\n{body}");
        let reply = ask(&mut client, &["FUNCTION", "LOAD", "REPLACE", &text]);
        assert!(reply.starts_with("-ERR"), "{body}: {reply}");
        assert_eq!(client.say("fcall lib 0"), ":1\r\n", "{body}");
        assert!(
            client
                .say("function stats")
                .contains("libraries_count\r\n:1")
        );
    }
}

/// While a text runs that does not end, others are served.
#[test]
fn loading_holds_up_nobody() {
    let server = alone();
    let mut loading = server.client();
    let text = "#!lua name=slow\nwhile true do end";
    loading.send(&request(&[b"FUNCTION", b"LOAD", text.as_bytes()]));
    let (mut other, begun) = (server.client(), Instant::now());
    let mut served = 0;
    while begun.elapsed() < Duration::from_millis(300) {
        assert_eq!(other.say("echo x"), "$1\r\nx\r\n");
        served += 1;
    }
    assert!(served > 5, "{served}");
    let reply = super::text(&loading.reply());
    assert_eq!(
        reply,
        "-ERR Error registering functions: ERR FUNCTION LOAD timeout\r\n"
    );
}

#[test]
fn a_function_that_runs_is_shown_and_killed() {
    let server = alone();
    let (mut client, mut other) = (server.client(), server.client());
    load(
        &mut client,
        "endless",
        "redis.call('set', 'k', 'v') while true do end",
    );
    client.send(&request(&[b"FCALL", b"endless", b"1", b"key", b"arg"]));
    let mut told = String::new();
    wait_until("it is shown", || {
        told = other.say("function stats");
        told.contains("endless")
    });
    let words = "*6\r\n$4\r\nname\r\n$7\r\nendless\r\n$7\r\ncommand\r\n*5\r\n$5\r\nfcall\r\n$7\r\nendless\r\n$1\r\n1\r\n$3\r\nkey\r\n$3\r\narg\r\n$11\r\nduration_ms\r\n:";
    assert!(told.contains(words), "{told}");
    assert!(other.say("script kill").starts_with("-NOTBUSY"));
    assert_eq!(other.say("function kill"), "+OK\r\n");
    let reply = text(&client.reply());
    assert!(reply.contains("FUNCTION KILL"), "{reply}");
    assert_eq!(other.say("exists k"), ":0\r\n");
    wait_until("nothing runs", || {
        other.say("function kill").starts_with("-NOTBUSY")
    });
    assert!(
        other
            .say("function stats")
            .contains("running_script\r\n$-1")
    );
    // And by itself.
    client.say("config set busy-reply-threshold 100");
    assert!(
        client
            .say("fcall endless 0")
            .contains("busy-reply-threshold")
    );
}

#[test]
fn a_function_that_only_reads_sees_a_snapshot() {
    let server = alone();
    let mut client = server.client();
    let text = "#!lua name=lib\nredis.register_function{function_name='count', flags={'no-writes'}, callback=function() return #redis.call('keys', 'snap*') end}";
    assert_eq!(
        ask(&mut client, &["FUNCTION", "LOAD", text]),
        "$3\r\nlib\r\n"
    );
    client.say("mset snap1 a snap2 b");
    assert_eq!(client.say("fcall_ro count 0"), ":2\r\n");
    assert_eq!(client.say("fcall count 0"), ":2\r\n");
    // It locks nothing: not the functions either.
    client.say("begin read only");
    assert_eq!(client.say("fcall_ro count 0"), ":2\r\n");
    let mut other = server.client();
    load(&mut other, "more", "return 1");
    assert_eq!(client.say("fcall more 0"), "-ERR Function not found\r\n");
    client.say("commit");
    assert_eq!(client.say("fcall more 0"), ":1\r\n");
}

#[test]
fn many_libraries() {
    const LIBRARIES: usize = 100;
    let server = alone();
    let mut client = server.client();
    for i in 0..LIBRARIES {
        load(&mut client, &format!("lib{i}"), &format!("return {i}"));
    }
    for i in (0..LIBRARIES).rev() {
        assert_eq!(client.say(&format!("fcall lib{i} 0")), format!(":{i}\r\n"));
    }
    assert!(
        client
            .say("function stats")
            .contains(&format!("functions_count\r\n:{LIBRARIES}"))
    );
    assert!(
        client
            .say("info memory")
            .contains(&format!("number_of_libraries:{LIBRARIES}\r\n"))
    );
    for i in (0..LIBRARIES).step_by(2) {
        assert_eq!(client.say(&format!("function delete lib{i}")), "+OK\r\n");
    }
    assert_eq!(client.say("fcall lib2 0"), "-ERR Function not found\r\n");
    assert_eq!(client.say("fcall lib3 0"), ":3\r\n");
}

fn long(name: &str, bytes: usize) -> Vec<u8> {
    let comment = "-- ".to_owned() + &"x".repeat(bytes);
    format!("{}\n{comment}", library(name, "return 1")).into_bytes()
}

#[test]
fn libraries_that_are_too_large_are_refused() {
    let server = alone();
    let mut client = server.client();
    let load = |client: &mut Client, name: &str, bytes: usize| {
        text(&client.ask(&[b"FUNCTION", b"LOAD", b"REPLACE", &long(name, bytes)]))
    };
    let too_large = "-ERR libraries of functions may have 16 MiB together\r\n";
    let too_long = "-ERR a library may have 1 MiB\r\n";
    assert_eq!(load(&mut client, "one", 1 << 20), too_long);
    let most = (1 << 20) - 200;
    for number in 0..16 {
        let name = format!("lib{number}");
        let reply = format!("${}\r\n{name}\r\n", name.len());
        assert_eq!(load(&mut client, &name, most), reply);
    }
    assert_eq!(load(&mut client, "more", most), too_large);
    assert_eq!(client.say("fcall more 0"), "-ERR Function not found\r\n");
    assert_eq!(client.say("fcall lib0 0"), ":1\r\n");
    assert_eq!(load(&mut client, "lib0", 100), "$4\r\nlib0\r\n");
    assert_eq!(load(&mut client, "more", most), "$4\r\nmore\r\n");
}

/// What a call changes of its surroundings ends with it.
/// Whatever the call has done so far: even if that is nothing.
#[test]
fn a_change_waits_for_a_call_that_computes() {
    let server = alone();
    let (mut client, mut other) = (server.client(), server.client());
    let body =
        "local s = '' for i = 1, 1e6 do s = tostring(i) end return redis.call('set', 'k', s)";
    load(&mut client, "spare", "return 1");
    // An emulated processor takes longer than scripts may.
    assert_eq!(client.say("CONFIG SET busy-reply-threshold 0"), "+OK\r\n");
    for change in [
        &["FUNCTION", "LOAD", "REPLACE", &library("new", "return 1")][..],
        &["FUNCTION", "DELETE", "spare"],
        &["FUNCTION", "FLUSH"],
    ] {
        load(&mut client, "computes", body);
        client.send(&request(&[b"FCALL", b"computes", b"0"]));
        wait_until("it computes", || {
            other.say("FUNCTION STATS").contains("duration_ms")
        });
        let told = ask(&mut other, change);
        assert!(!told.starts_with('-'), "{change:?}: {told}");
        assert_eq!(client.reply(), b"+OK\r\n", "{change:?}");
    }
}

#[test]
fn calls_do_not_meet() {
    let server = alone();
    let mut client = server.client();
    load(
        &mut client,
        "writes",
        "table.insert(string, 'x') return #string",
    );
    let replies: Vec<String> = (0..3).map(|_| client.say("fcall writes 0")).collect();
    assert!(
        replies.iter().all(|reply| *reply == replies[0]),
        "{replies:?}"
    );
}

/// What a function may do is asked of the one that there is, not of the one that was called last.
#[test]
fn a_function_that_was_replaced_is_judged_anew() {
    let server = alone();
    let mut client = server.client();
    let flags = |flags: &str| {
        format!(
            "#!lua name=f\nredis.register_function{{function_name='f', flags={{{flags}}}, \
             callback=function() return 1 end}}"
        )
    };
    let replace = |client: &mut Client, text: &str| {
        let reply = ask(client, &["FUNCTION", "LOAD", "REPLACE", text]);
        assert_eq!(reply, "$1\r\nf\r\n");
    };
    replace(&mut client, &flags(""));
    assert_eq!(client.say("FCALL f 0"), ":1\r\n");
    replace(&mut client, &flags("'no-writes'"));
    assert_eq!(client.say("FCALL_RO f 0"), ":1\r\n");
    replace(&mut client, &flags(""));
    let refused = client.say("FCALL_RO f 0");
    assert!(refused.starts_with("-ERR Can not execute"), "{refused}");
}

/// A library that is being loaded is no call: it ends by itself.
#[test]
fn a_library_that_is_being_loaded_is_not_killed() {
    let server = alone();
    let loads = std::thread::spawn({
        let mut client = server.client();
        move || {
            ask(
                &mut client,
                &["FUNCTION", "LOAD", "#!lua name=endless\nwhile true do end"],
            )
        }
    });
    let mut client = server.client();
    while !loads.is_finished() {
        let reply = ask(&mut client, &["FUNCTION", "KILL"]);
        assert!(reply.starts_with("-NOTBUSY"), "{reply}");
    }
    let reply = loads.join().expect("it was answered");
    assert!(reply.contains("timeout"), "{reply}");
}

/// A function that waits, because as many scripts are running as may be, is found and ended.
#[test]
fn a_call_that_waits_for_others_is_killed() {
    const SCRIPTS: usize = 70;
    let server = alone();
    let (mut client, mut other) = (server.client(), server.client());
    // The interpreter runs it.
    load(&mut other, "waits", "return cjson.encode({1})");
    // They end when they are told to.
    other.say("config set busy-reply-threshold 0");
    let mut scripts: Vec<_> = (0..SCRIPTS).map(|_| server.client()).collect();
    for script in &mut scripts {
        // Of those that may write one at a time is in the midst of its work.
        script.send(&request(&[b"EVAL_RO", b"while true do end", b"0"]));
    }
    wait_until("they run", || {
        other.say("client list").matches("cmd=eval_ro ").count() == SCRIPTS
    });
    client.send(&request(&[b"FCALL", b"waits", b"1", b"key"]));
    wait_until("the function waits", || {
        other.say("function stats").contains("waits")
    });
    assert_eq!(other.say("function kill"), "+OK\r\n");
    let reply = text(&client.reply());
    assert!(reply.contains("killed by FUNCTION KILL"), "{reply}");
    assert!(other.say("function kill").starts_with("-NOTBUSY"));
    assert_eq!(other.say("script kill"), "+OK\r\n");
    for script in &mut scripts {
        let reply = text(&script.reply());
        assert!(reply.contains("killed by SCRIPT KILL"), "{reply}");
    }
}
