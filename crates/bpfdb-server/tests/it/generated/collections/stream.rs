use super::*;

/// No identifier and no time is that of the moment: two servers have others. Nothing waits.
pub const COMMANDS: &[Command] = &[
    command("xack", 3, Exact, || {
        seq([key(), group(), many(id(), 1..=3)])
    }),
    command("xadd", 24, Exact, || {
        let options = [option("NOMKSTREAM"), trim(), trim()];
        let pairs = many(seq([element(), element()]), 1..=3);
        seq([key(), some_of(1, options), new_id(), pairs])
    }),
    command("xautoclaim", 3, Exact, || {
        let options = [seq([option("COUNT"), small_integer()]), option("JUSTID")];
        let claim = seq([key(), group(), consumer(), idle(), id()]);
        seq([claim, some_of(2, options)])
    }),
    command("xclaim", 3, Exact, || {
        let options = [
            option("FORCE"),
            option("JUSTID"),
            seq([option("RETRYCOUNT"), small_integer()]),
            seq([option("LASTID"), id()]),
            word("AGAIN"),
        ];
        let claim = seq([key(), group(), consumer(), idle()]);
        seq([claim, many(id(), 1..=3), some_of(3, options)])
    }),
    command("xdel", 4, Exact, || seq([key(), many(id(), 1..=3)])),
    command("xgroup", 6, Exact, || {
        let read = seq([option("ENTRIESREAD"), small_integer()]);
        let options = some_of(2, [option("MKSTREAM"), read.clone()]);
        let create = [option("CREATE"), key(), group(), id(), options];
        one_of([
            seq(create.clone()),
            seq(create),
            seq([option("SETID"), key(), group(), id(), some_of(1, [read])]),
            seq([option("DESTROY"), key(), group()]),
            seq([option("CREATECONSUMER"), key(), group(), consumer()]),
            seq([option("DELCONSUMER"), key(), group(), consumer()]),
        ])
    }),
    // Times are those of the moment.
    command("xinfo", 3, Chosen, || {
        let full = seq([option("FULL"), some_of(1, [count()])]);
        one_of([
            seq([option("STREAM"), key(), some_of(1, [full])]),
            seq([option("GROUPS"), key()]),
            seq([option("CONSUMERS"), key(), group()]),
        ])
    }),
    command("xlen", 2, Exact, key),
    command("xpending", 4, Chosen, || {
        let listed = seq([id(), id(), small_integer(), some_of(1, [consumer()])]);
        seq([key(), group(), some_of(1, [listed])])
    }),
    command("xrange", 4, Exact, || {
        seq([key(), bound(), bound(), some_of(1, [count()])])
    }),
    command("xread", 4, Exact, || {
        let one = seq([key(), id()]);
        let two = seq([key(), key(), id(), id()]);
        seq([
            some_of(1, [count()]),
            option("STREAMS"),
            one_of([one.clone(), one, two]),
        ])
    }),
    command("xreadgroup", 10, Exact, || {
        let options = some_of(2, [count(), option("NOACK")]);
        let from = one_of([word(">"), word(">"), id()]);
        seq([
            option("GROUP"),
            group(),
            consumer(),
            options,
            seq([option("STREAMS"), key(), from]),
        ])
    }),
    command("xrevrange", 3, Exact, || {
        seq([key(), bound(), bound(), some_of(1, [count()])])
    }),
    command("xsetid", 2, Exact, || {
        let options = [
            seq([option("ENTRIESADDED"), small_integer()]),
            seq([option("MAXDELETEDID"), id()]),
        ];
        seq([key(), id(), some_of(2, options)])
    }),
    command("xtrim", 4, Exact, || seq([key(), trim()])),
];

fn key() -> Part {
    key_of(STREAMS)
}

/// Like an option, one may have the name of the word that keys are behind.
fn group() -> Part {
    word_of(&["g", "g", "g", "h", "streams"])
}

fn consumer() -> Part {
    word_of(&["alice", "alice", "bob", "", "streams"])
}

/// Milliseconds that no entry, or each, has been idle.
fn idle() -> Part {
    word_of(&["0", "0", "0", "-1", "9223372036854775807", "x"])
}

fn count() -> Part {
    seq([option("COUNT"), small_integer()])
}

const IDS: &[&str] = &[
    "0",
    "1-0",
    "1-1",
    "2",
    "2-1",
    "3-0",
    "4-2",
    "5",
    "7-1",
    "9-0",
    "12-3",
    "15",
    "20-0",
    "0-0",
    "0-1",
    "18446744073709551615-18446744073709551615",
    "18446744073709551616",
    "x",
    "1-x",
    "-",
    "+",
    "$",
    "",
];

fn id() -> Part {
    word_of(IDS)
}

fn new_id() -> Part {
    one_of([
        word_of(IDS),
        word_of(&["1-*", "3-*", "5-*", "9-*", "12-*", "20-*", "30-*", "x-*"]),
        word_of(&["20-*", "30-*", "30-*"]),
    ])
}

fn bound() -> Part {
    one_of([
        id(),
        word_of(&["-", "+"]),
        word_of(&["(1-1", "(3-0", "(20-0", "(", "(-", "(x"]),
    ])
}

fn trim() -> Part {
    let maxlen = seq([
        option("MAXLEN"),
        some_of(1, [word("="), word("~")]),
        small_integer(),
    ]);
    let minid = seq([option("MINID"), some_of(1, [word("="), word("~")]), id()]);
    let limit = seq([option("LIMIT"), small_integer()]);
    seq([one_of([maxlen, minid]), some_of(1, [limit])])
}
