//! GEOADD: ZADD, with places for scores.

use super::super::arguments::{is, syntax_error};
use super::super::prelude::*;
use super::super::sorted_set::add;
use super::places::place;

pub(crate) static COMMAND: Command = Command {
    name: "geoadd",
    summary: "Adds places to a sorted set",
    since: "3.2.0",
    group: Group::Geo,
    complexity: "O(length of the sorted set)",
    arity: -5,
    arguments: "key:key, [condition(NX|XX)@6.2.0], [CH=change@6.2.0], longitude_latitude_member{longitude:double, latitude:double, member}...",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::Geo],
    keys: &[Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Update])],
    events: Events::Named("zadd"),
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, words) = (&arguments[0], &arguments[1..]);
    let is_option = |word: &&Vec<u8>| ["nx", "xx", "ch"].iter().any(|option| is(word, option));
    let options = words.iter().take_while(is_option).count();
    let (options, triples) = words.split_at(options);
    let has = |name| options.iter().any(|option| is(option, name));
    if !triples.len().is_multiple_of(3) || (has("nx") && has("xx")) {
        return Err(syntax_error());
    }
    let mut scored = vec![key.clone()];
    scored.extend_from_slice(options);
    for triple in triples.chunks_exact(3) {
        let score = place(&triple[0], &triple[1])?.score() as u64;
        scored.push(score.to_string().into_bytes());
        scored.push(triple[2].clone());
    }
    add(context, &scored, false)
}
