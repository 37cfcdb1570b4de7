use super::*;

/// Each member has a place of its own: no two are equally far from a third.
pub const COMMANDS: &[Command] = &[
    command("geoadd", 10, Exact, || {
        let options = some_of(2, ["NX", "XX", "CH"].map(option));
        seq([
            key(),
            options,
            many(one_of([placed(), placed(), placed(), astray()]), 1..=4),
        ])
    }),
    command("geodist", 3, Exact, || {
        seq([key(), member(), member(), some_of(1, [unit()])])
    }),
    command("geohash", 2, Exact, || seq([key(), many(member(), 1..=3)])),
    command("geopos", 2, Exact, || seq([key(), many(member(), 1..=3)])),
    command("georadius", 4, Unordered, || {
        let store = seq([word_of(&["STORE", "STOREDIST"]), key()]);
        let circle = seq([key(), place(), radius(), unit()]);
        seq([circle, one_of([options(), options(), store])])
    }),
    command("georadius_ro", 2, Unordered, || {
        seq([key(), place(), radius(), unit(), options()])
    }),
    command("georadiusbymember", 3, Unordered, || {
        let store = seq([word_of(&["STORE", "STOREDIST"]), key()]);
        let circle = seq([key(), member(), radius(), unit()]);
        seq([circle, one_of([options(), options(), store])])
    }),
    command("georadiusbymember_ro", 2, Unordered, || {
        seq([key(), member(), radius(), unit(), options()])
    }),
    command("geosearch", 6, Unordered, || {
        seq([key(), area(), options()])
    }),
    command("geosearchstore", 3, Exact, || {
        let options = some_of(2, [count(), option("STOREDIST")]);
        seq([key(), key(), area(), options])
    }),
];

fn key() -> Part {
    key_of(PLACES)
}

fn words_of(texts: &'static [&'static str]) -> Part {
    let words = prop::sample::select(texts);
    let words = words.prop_map(|text| text.split(' ').map(|word| word.into()).collect());
    words.boxed()
}

fn placed() -> Part {
    words_of(&[
        "13.361389 38.115556 Palermo",
        "15.087269 37.502669 Catania",
        "-122.27652 37.805186 Oakland",
        "2.352222 48.856613 Paris",
        "-0.1276 51.507222 London",
        "139.6917 35.6895 Tokyo",
        "-179.9 0.5 west",
        "179.8 -0.3 east",
    ])
}

fn astray() -> Part {
    words_of(&["200 0 a", "0 86 a", "x 1 a", "1 x a", "nan 0 a", "1 1"])
}

fn member() -> Part {
    word_of(&[
        "Palermo", "Catania", "Oakland", "Paris", "London", "Tokyo", "west", "east", "absent",
    ])
}

fn place() -> Part {
    words_of(&[
        "15 37", "2 48", "179.95 0", "-122 37", "0 0", "200 0", "x 1",
    ])
}

fn radius() -> Part {
    word_of(&["200", "1000", "20000", "0", "-1", "x", "1.5"])
}

fn unit() -> Part {
    word_of(&["km", "km", "m", "mi", "ft", "KM", "yd"])
}

fn count() -> Part {
    seq([option("COUNT"), small_integer()])
}

fn options() -> Part {
    let options = [
        option("WITHCOORD"),
        option("WITHDIST"),
        option("WITHHASH"),
        option("ASC"),
        option("DESC"),
        count(),
    ];
    some_of(4, options)
}

fn area() -> Part {
    let from = one_of([
        seq([option("FROMMEMBER"), member()]),
        seq([option("FROMLONLAT"), place()]),
    ]);
    let by = one_of([
        seq([option("BYRADIUS"), radius(), unit()]),
        seq([option("BYBOX"), radius(), radius(), unit()]),
    ]);
    one_of([
        seq([from.clone(), by.clone()]),
        seq([from.clone(), by.clone()]),
        seq([by, from]),
    ])
}
