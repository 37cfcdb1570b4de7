use super::*;

/// Lists of numbers. Texts that elements are sorted by are the elements: equal ones would come in any order.
pub const COMMANDS: &[Command] = &[
    command("sort", 12, Exact, || {
        let store = seq([option("STORE"), key()]);
        seq([
            key(),
            one_of([by_numbers(), by_numbers(), by_texts()]),
            some_of(1, [store]),
        ])
    }),
    command("sort_ro", 4, Exact, || {
        seq([key(), one_of([by_numbers(), by_texts()])])
    }),
];

/// What is sorted, and by what.
pub const FILLED: &[Command] = &[
    command("rpush", 8, Exact, || {
        seq([word_of(SORTED), many(number(), 1..=6)])
    }),
    command("mset", 6, Exact, || {
        many(
            seq([weight(), one_of([number(), number(), word("")])]),
            1..=6,
        )
    }),
    command("hset", 4, Exact, || {
        seq([word_of(&["h:1", "h:2", "h:3"]), word("f"), number()])
    }),
];

fn key() -> Part {
    word_of(SORTED)
}

fn number() -> Part {
    word_of(&["1", "2", "3", "4", "5", "10", "-7", "2.5", "007"])
}

fn weight() -> Part {
    word_of(&["w:1", "w:2", "w:3", "w:4", "w:10", "w:-7"])
}

fn pattern() -> Part {
    word_of(&["w:*", "w:*", "h:*->f", "#", "*", "absent:*", "w:1"])
}

fn get() -> Part {
    seq([option("GET"), pattern()])
}

fn direction() -> Part {
    one_of([option("ASC"), option("DESC")])
}

fn by_numbers() -> Part {
    let by = seq([option("BY"), one_of([pattern(), word("nosort")])]);
    some_of(4, [by, get(), limit(), direction()])
}

fn by_texts() -> Part {
    seq([option("ALPHA"), some_of(3, [get(), limit(), direction()])])
}
