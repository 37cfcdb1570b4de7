use super::*;

/// A set beside sorted sets has scores of 1; a range by names has a meaning in a lexicon only.
pub const COMMANDS: &[Command] = &[
    command("zadd", 14, Exact, || {
        let names = seq([lexicon(), many(seq([word("0"), element()]), 1..=6)]);
        let plain = seq([key(), many(seq([score(), element()]), 1..=6)]);
        let options = some_of(3, ["NX", "XX", "GT", "LT", "CH", "INCR"].map(option));
        let some = seq([key(), options, many(seq([score(), element()]), 1..=2)]);
        one_of([names, plain.clone(), plain, some.clone(), some])
    }),
    command("zcard", 2, Exact, key),
    command("zcount", 3, Exact, || {
        seq([key(), score_bound(), score_bound()])
    }),
    command("zdiff", 2, Exact, || {
        seq([counted(key_or_set(), 1..=3), with_scores()])
    }),
    command("zdiffstore", 2, Exact, || {
        seq([key(), counted(key_or_set(), 1..=3)])
    }),
    command("zincrby", 4, Exact, || seq([key(), score(), element()])),
    command("zinter", 2, Exact, || {
        seq([counted(key_or_set(), 1..=3), combined(), with_scores()])
    }),
    command("zintercard", 2, Exact, || {
        let limit = seq([option("LIMIT"), integer()]);
        seq([counted(key_or_set(), 1..=3), some_of(2, [limit])])
    }),
    command("zinterstore", 2, Exact, || {
        seq([key(), counted(key_or_set(), 1..=3), combined()])
    }),
    command("zlexcount", 2, Exact, || {
        seq([lexicon(), name_bound(), name_bound()])
    }),
    command("zmpop", 3, Exact, || {
        let which = one_of([option("MIN"), option("MAX"), option("MIN"), word("LEFT")]);
        let count = seq([option("COUNT"), integer()]);
        seq([counted(any_key(), 1..=3), which, some_of(2, [count])])
    }),
    command("zmscore", 2, Exact, || seq([key(), many(element(), 1..=4)])),
    command("zpopmax", 3, Exact, || {
        seq([any_key(), some_of(1, [integer()])])
    }),
    command("zpopmin", 3, Exact, || {
        seq([any_key(), some_of(1, [integer()])])
    }),
    command("zrandmember", 2, Chosen, || {
        let count = seq([chosen(), some_of(1, [option("WITHSCORES")])]);
        seq([key(), some_of(1, [count])])
    }),
    command("zrange", 10, Exact, || {
        one_of([by_rank(), by_score(), by_name()])
    }),
    command("zrangebylex", 2, Exact, || {
        seq([names(), some_of(1, [limit()])])
    }),
    command("zrangebyscore", 3, Exact, || {
        seq([
            key(),
            score_bound(),
            score_bound(),
            some_of(2, [limit(), option("WITHSCORES")]),
        ])
    }),
    command("zrangestore", 3, Exact, || {
        seq([key(), one_of([by_rank(), by_score(), by_name()])])
    }),
    command("zrank", 3, Exact, || seq([any_key(), element()])),
    command("zrem", 4, Exact, || {
        seq([any_key(), many(element(), 1..=3)])
    }),
    command("zremrangebylex", 1, Exact, names),
    command("zremrangebyrank", 2, Exact, || {
        seq([any_key(), offset(), offset()])
    }),
    command("zremrangebyscore", 2, Exact, || {
        seq([key(), score_bound(), score_bound()])
    }),
    command("zrevrange", 3, Exact, || {
        seq([any_key(), offset(), offset(), with_scores()])
    }),
    command("zrevrangebylex", 2, Exact, || {
        seq([names(), some_of(1, [limit()])])
    }),
    command("zrevrangebyscore", 3, Exact, || {
        seq([
            key(),
            score_bound(),
            score_bound(),
            some_of(2, [limit(), option("WITHSCORES")]),
        ])
    }),
    command("zrevrank", 3, Exact, || seq([any_key(), element()])),
    command("zscan", 2, Scan, || scan(any_key())),
    command("zscore", 3, Exact, || seq([key(), element()])),
    command("zunion", 2, Exact, || {
        seq([counted(key_or_set(), 1..=3), combined(), with_scores()])
    }),
    command("zunionstore", 3, Exact, || {
        seq([key(), counted(key_or_set(), 1..=3), combined()])
    }),
];

fn key() -> Part {
    key_of(SORTED_SETS)
}

fn lexicon() -> Part {
    word_of(LEXICONS)
}

fn any_key() -> Part {
    one_of([key(), key(), lexicon()])
}

fn key_or_set() -> Part {
    one_of([key(), key(), lexicon(), word_of(SETS)])
}

fn with_scores() -> Part {
    some_of(1, [option("WITHSCORES")])
}

fn combined() -> Part {
    let options = [
        seq([option("WEIGHTS"), many(score(), 1..=3)]),
        seq([
            option("AGGREGATE"),
            one_of(["SUM", "MIN", "MAX", "AVG"].map(option)),
        ]),
    ];
    some_of(2, options)
}

fn by_rank() -> Part {
    let options = [option("REV"), option("WITHSCORES"), limit()];
    seq([any_key(), offset(), offset(), some_of(2, options)])
}

fn by_score() -> Part {
    let options = [option("REV"), option("WITHSCORES"), limit()];
    let ends = seq([score_bound(), score_bound()]);
    seq([key(), ends, option("BYSCORE"), some_of(3, options)])
}

fn names() -> Part {
    seq([lexicon(), name_bound(), name_bound()])
}

fn by_name() -> Part {
    let options = [option("REV"), option("WITHSCORES"), limit()];
    seq([names(), option("BYLEX"), some_of(3, options)])
}
