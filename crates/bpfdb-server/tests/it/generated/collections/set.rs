use super::*;

pub const COMMANDS: &[Command] = &[
    command("sadd", 12, Exact, || {
        let integers = seq([word("set:ints"), many(small_integer(), 1..=8)]);
        let any = seq([word_of(&["set:1", "set:2"]), many(element(), 1..=6)]);
        one_of([
            integers,
            any.clone(),
            any,
            seq([key(), many(element(), 1..=2)]),
        ])
    }),
    command("scard", 2, Exact, key),
    command("sdiff", 2, Unordered, || many(key(), 1..=3)),
    command("sdiffstore", 2, Exact, || many(key(), 2..=4)),
    command("sinter", 2, Unordered, || many(key(), 1..=3)),
    command("sintercard", 3, Exact, || {
        let limit = seq([option("LIMIT"), integer()]);
        seq([counted(key(), 1..=3), some_of(2, [limit])])
    }),
    command("sinterstore", 2, Exact, || many(key(), 2..=4)),
    command("sismember", 3, Exact, || seq([key(), member()])),
    command("smembers", 4, Unordered, key),
    command("smismember", 2, Exact, || {
        seq([key(), many(member(), 1..=4)])
    }),
    command("smove", 3, Exact, || seq([key(), key(), member()])),
    command("spop", 2, Chosen, || seq([key(), some_of(1, [chosen()])])),
    command("srandmember", 2, Chosen, || {
        seq([key(), some_of(1, [chosen()])])
    }),
    command("srem", 5, Exact, || seq([key(), many(member(), 1..=4)])),
    command("sscan", 2, Scan, || scan(key())),
    command("sunion", 2, Unordered, || many(key(), 1..=3)),
    command("sunionstore", 2, Exact, || many(key(), 2..=4)),
];

fn key() -> Part {
    key_of(SETS)
}

fn member() -> Part {
    one_of([element(), small_integer()])
}
