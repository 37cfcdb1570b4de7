use super::*;

pub const COMMANDS: &[Command] = &[
    command("hdel", 4, Exact, || seq([key(), many(element(), 1..=4)])),
    command("hexists", 2, Exact, || seq([key(), element()])),
    command("hget", 4, Exact, || seq([key(), element()])),
    command("hgetall", 4, Pairs, key),
    command("hincrby", 4, Exact, || seq([key(), element(), integer()])),
    command("hincrbyfloat", 3, Exact, || {
        seq([key(), element(), float()])
    }),
    command("hkeys", 2, Unordered, key),
    command("hlen", 2, Exact, key),
    command("hmget", 3, Exact, || seq([key(), many(element(), 1..=4)])),
    command("hmset", 3, Exact, || seq([key(), many(pair(), 1..=4)])),
    command("hrandfield", 2, Chosen, || {
        let count = seq([chosen(), some_of(1, [option("WITHVALUES")])]);
        seq([key(), some_of(1, [count])])
    }),
    command("hscan", 2, Scan, || scan(key())),
    command("hset", 12, Exact, || seq([key(), many(pair(), 1..=6)])),
    command("hsetnx", 3, Exact, || seq([key(), pair()])),
    command("hstrlen", 2, Exact, || seq([key(), element()])),
    command("hvals", 2, Unordered, key),
];

fn key() -> Part {
    key_of(HASHES)
}

fn pair() -> Part {
    seq([element(), one_of([value(), element(), small_integer()])])
}
