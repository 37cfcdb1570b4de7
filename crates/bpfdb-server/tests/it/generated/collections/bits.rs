use super::*;

pub const COMMANDS: &[Command] = &[
    command("bitfield", 10, Exact, || {
        seq([
            key(),
            many(one_of([get(), set(), add(), overflow()]), 1..=4),
        ])
    }),
    command("bitfield_ro", 3, Exact, || {
        seq([key(), many(one_of([get(), get(), set()]), 1..=3)])
    }),
];

fn key() -> Part {
    key_of(BITS)
}

fn width() -> Part {
    word_of(&[
        "u1", "u4", "u8", "u16", "u31", "u63", "i1", "i5", "i8", "i32", "i63", "i64", "u64", "i65",
        "u0", "8", "x8", "",
    ])
}

/// Not far: a value is as long as its last bit.
fn at() -> Part {
    word_of(&[
        "0", "1", "3", "7", "8", "30", "64", "100", "1000", "#0", "#1", "#5", "#", "-1", "x",
    ])
}

fn get() -> Part {
    seq([option("GET"), width(), at()])
}

fn set() -> Part {
    seq([option("SET"), width(), at(), integer()])
}

fn add() -> Part {
    seq([option("INCRBY"), width(), at(), integer()])
}

fn overflow() -> Part {
    let how = one_of([option("WRAP"), option("SAT"), option("FAIL"), word("NONE")]);
    seq([option("OVERFLOW"), how])
}
