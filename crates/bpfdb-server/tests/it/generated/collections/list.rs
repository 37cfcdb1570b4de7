use super::*;

pub const COMMANDS: &[Command] = &[
    command("lindex", 3, Exact, || seq([key(), place()])),
    command("linsert", 4, Exact, || {
        seq([
            key(),
            one_of([option("BEFORE"), option("AFTER"), word("at")]),
            element(),
            element(),
        ])
    }),
    command("llen", 2, Exact, key),
    command("lmove", 4, Exact, || seq([key(), key(), end(), end()])),
    command("lmpop", 3, Exact, || {
        let count = seq([option("COUNT"), place()]);
        seq([counted(key(), 1..=3), end(), some_of(2, [count])])
    }),
    command("lpop", 4, Exact, || seq([key(), some_of(1, [place()])])),
    command("lpos", 4, Exact, || {
        let options = [
            seq([option("RANK"), integer()]),
            seq([option("COUNT"), place()]),
            seq([option("MAXLEN"), place()]),
            word("LAST"),
        ];
        seq([key(), element(), some_of(3, options)])
    }),
    command("lpush", 8, Exact, || seq([key(), many(element(), 1..=6)])),
    command("lpushx", 2, Exact, || seq([key(), many(element(), 1..=3)])),
    command("lrange", 5, Exact, || seq([key(), place(), place()])),
    command("lrem", 4, Exact, || seq([key(), place(), element()])),
    command("lset", 4, Exact, || seq([key(), place(), element()])),
    command("ltrim", 3, Exact, || seq([key(), place(), place()])),
    command("rpop", 4, Exact, || seq([key(), some_of(1, [place()])])),
    command("rpoplpush", 3, Exact, || seq([key(), key()])),
    command("rpush", 8, Exact, || seq([key(), many(element(), 1..=6)])),
    command("rpushx", 2, Exact, || seq([key(), many(element(), 1..=3)])),
];

fn key() -> Part {
    key_of(LISTS)
}

/// An index, or a number of elements: mostly near.
fn place() -> Part {
    one_of([
        small_integer(),
        small_integer(),
        word_of(&["0", "-1", "1", "2", "-2"]),
        integer(),
    ])
}

fn end() -> Part {
    one_of([
        option("LEFT"),
        option("RIGHT"),
        option("LEFT"),
        option("RIGHT"),
        word("up"),
    ])
}
