//! Unions, intersections and differences of sorted sets and sets, whose members have the score 1.
//!
//! Redis adds scores up in the order of the sets' sizes, which matters for sums of fractions: so do we.

use std::collections::HashMap;

use bpfdb::{Session, ValueType};
use bpfdb_values::double;
use bpfdb_values::run::{Run, written_len};
use bpfdb_values::sorted_set::{Entry, SortedSet, sort, write};

use super::super::arguments::{at_least, is, number, syntax_error};
use super::super::atomic::{Kind, atomically};
use super::super::collection::{check_len, load_any};
use super::super::prelude::*;
use super::scores::Form;
use super::store;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Union,
    Intersection,
    Difference,
}

/// What becomes of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Reply,
    Store,
    Count,
}

/// How the scores of a member of several sets become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum => number_or_zero(a + b),
            Self::Min => {
                if b < a {
                    b
                } else {
                    a
                }
            }
            Self::Max => {
                if b > a {
                    b
                } else {
                    a
                }
            }
        }
    }
}

/// Opposite infinities make 0, and so do 0 and infinity.
fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

#[derive(Debug)]
struct Options {
    /// One for each key.
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: usize,
}

impl Options {
    fn parse(
        mut words: &[Vec<u8>],
        keys: usize,
        operation: Operation,
        purpose: Purpose,
    ) -> Result<Self, Failure> {
        let mut options = Self {
            weights: vec![1.0; keys],
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: usize::MAX,
        };
        let has_scores = operation != Operation::Difference && purpose != Purpose::Count;
        while let Some((word, behind)) = words.split_first() {
            if has_scores && behind.len() >= keys && is(word, "weights") {
                let (weights, behind) = behind.split_at(keys);
                options.weights = weights
                    .iter()
                    .map(|text| weight(text))
                    .collect::<Result<_, _>>()?;
                words = behind;
                continue;
            }
            words = match behind {
                [name, behind @ ..] if has_scores && is(word, "aggregate") => {
                    options.aggregate = aggregate(name)?;
                    behind
                }
                [limit, behind @ ..] if purpose == Purpose::Count && is(word, "limit") => {
                    let limit = at_least(limit, 0, "ERR LIMIT can't be negative")?;
                    options.limit = match usize::try_from(limit) {
                        Ok(0) | Err(_) => usize::MAX,
                        Ok(limit) => limit,
                    };
                    behind
                }
                behind if purpose == Purpose::Reply && is(word, "withscores") => {
                    options.with_scores = true;
                    behind
                }
                _ => return Err(syntax_error()),
            };
        }
        Ok(options)
    }
}

fn weight(text: &[u8]) -> Result<f64, Failure> {
    double::parse(text).ok_or_else(|| "ERR weight value is not a float".into())
}

fn aggregate(name: &[u8]) -> Result<Aggregate, Failure> {
    let names = [
        ("sum", Aggregate::Sum),
        ("min", Aggregate::Min),
        ("max", Aggregate::Max),
    ];
    let found = names.into_iter().find(|(known, _)| is(name, known));
    found
        .map(|(_, aggregate)| aggregate)
        .ok_or_else(syntax_error)
}

/// Words of a request.
type Words<'a> = &'a [Vec<u8>];

/// Keys, with as many before them as the first word says; and what stands behind them.
fn keys<'a>(command: &str, words: Words<'a>) -> Result<(Words<'a>, Words<'a>), Failure> {
    let count = number(&words[0])?;
    if count < 1 {
        return Err(format!("ERR at least 1 input key is needed for '{command}' command").into());
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    words[1..].split_at_checked(count).ok_or_else(syntax_error)
}

/// A set that was read: its type and bytes, or that there is none.
type Read = Option<(ValueType, Vec<u8>)>;

/// Bytes of the sets that one command reads, at most.
const SOURCES_MAX: usize = 1 << 30;

/// The sets that a command names.
#[derive(Debug, Default)]
struct Sources {
    /// Each key's once, however often it is named.
    read: Vec<Read>,
    /// For each key of the command its place in `read`.
    places: Vec<usize>,
}

/// Reads the sets at one moment, in a transaction.
fn read(session: &mut Session, keys: &[Vec<u8>]) -> Result<Sources, Failure> {
    let kinds = [ValueType::SORTED_SET, ValueType::SET];
    let mut sources = Sources::default();
    let mut known: HashMap<&[u8], usize> = HashMap::new();
    let mut bytes = 0;
    for key in keys {
        if let Some(&place) = known.get(&key[..]) {
            if sources.read[place].is_none() {
                session.note_miss(key);
            }
            sources.places.push(place);
            continue;
        }
        let read = load_any(session, key, &kinds)?;
        bytes += read.as_ref().map_or(0, |(_, entry)| entry.value.len());
        if bytes > SOURCES_MAX {
            return Err("ERR the sets have more than 1 GiB; name fewer".into());
        }
        let place = sources.read.len();
        known.insert(key, place);
        sources.places.push(place);
        sources
            .read
            .push(read.map(|(kind, entry)| (kind, entry.value)));
    }
    Ok(sources)
}

/// The members of each set in `Sources::read`.
type Members<'a> = Vec<Vec<Entry<'a>>>;

impl Sources {
    fn members(&self) -> Result<Members<'_>, Failure> {
        let sets = self.read.iter().map(|set| {
            set.as_ref()
                .map_or(Ok(Vec::new()), |(kind, bytes)| entries(*kind, bytes))
        });
        sets.collect()
    }

    /// The sets in the order of the command.
    fn inputs<'m, 'a>(&self, members: &'m Members<'a>, weights: &[f64]) -> Vec<Input<'m, 'a>> {
        let weighted = self.places.iter().zip(weights);
        let inputs = weighted.map(|(&place, &weight)| Input {
            place,
            entries: &members[place],
            weight,
        });
        inputs.collect()
    }
}

/// One of the sets.
#[derive(Clone, Copy, Debug)]
struct Input<'m, 'a> {
    /// The same of those that are the same set.
    place: usize,
    entries: &'m [Entry<'a>],
    weight: f64,
}

impl Input<'_, '_> {
    fn weighted(&self, score: f64) -> f64 {
        self.weight * score
    }
}

fn entries(kind: ValueType, bytes: &[u8]) -> Result<Vec<Entry<'_>>, Failure> {
    if kind == ValueType::SORTED_SET {
        return Ok(SortedSet::read(bytes)?.entries().to_vec());
    }
    let entries = Run::parse(bytes)?.iter();
    let entries = entries.map(|entry| {
        Ok(Entry {
            member: entry?.0,
            score: 1.0,
        })
    });
    entries.collect()
}

/// The bytes of a sorted set with these entries.
///
/// # Errors
/// It would be too long; found out before memory is taken for it.
fn written(entries: Vec<Entry<'_>>) -> Result<Vec<u8>, Failure> {
    let score = [0; size_of::<f64>()];
    let pairs = entries.iter().map(|entry| (entry.member, &score[..]));
    check_len(written_len(pairs))?;
    Ok(write(entries))
}

/// The members of the result, in any order.
fn combined<'a>(
    operation: Operation,
    mut inputs: Vec<Input<'_, 'a>>,
    options: &Options,
) -> Vec<Entry<'a>> {
    if operation != Operation::Difference {
        inputs.sort_by_key(|input| input.entries.len());
    }
    match operation {
        Operation::Union => union(&inputs, options.aggregate),
        Operation::Intersection => intersection(&inputs, options),
        Operation::Difference => difference(&inputs),
    }
}

fn union<'a>(inputs: &[Input<'_, 'a>], aggregate: Aggregate) -> Vec<Entry<'a>> {
    let mut scores: HashMap<&'a [u8], f64> = HashMap::new();
    for input in inputs {
        for entry in input.entries {
            let score = number_or_zero(input.weighted(entry.score));
            scores
                .entry(entry.member)
                .and_modify(|before| *before = aggregate.of(*before, score))
                .or_insert(score);
        }
    }
    let scores = scores.into_iter();
    scores
        .map(|(member, score)| Entry { member, score })
        .collect()
}

fn intersection<'a>(inputs: &[Input<'_, 'a>], options: &Options) -> Vec<Entry<'a>> {
    let Some((least, others)) = inputs.split_first() else {
        return Vec::new();
    };
    if least.entries.is_empty() {
        return Vec::new();
    }
    // One table for each set, however often it is named.
    let mut tables = HashMap::new();
    for other in others {
        tables.entry(other.place).or_insert_with(|| table(other));
    }
    let others: Vec<_> = (others.iter())
        .map(|other| (other, &tables[&other.place]))
        .collect();
    let common = least.entries.iter().filter_map(|entry| {
        let mut score = number_or_zero(least.weighted(entry.score));
        for (other, scores) in &others {
            let value = other.weighted(*scores.get(entry.member)?);
            score = options.aggregate.of(score, value);
        }
        Some(Entry { score, ..*entry })
    });
    common.take(options.limit).collect()
}

fn table<'a>(input: &Input<'_, 'a>) -> HashMap<&'a [u8], f64> {
    let entries = input.entries.iter();
    entries.map(|entry| (entry.member, entry.score)).collect()
}

fn difference<'a>(inputs: &[Input<'_, 'a>]) -> Vec<Entry<'a>> {
    let Some((first, others)) = inputs.split_first() else {
        return Vec::new();
    };
    let mut left = table(first);
    if others.iter().any(|other| other.place == first.place) {
        return Vec::new();
    }
    for entry in others.iter().flat_map(|other| other.entries) {
        left.remove(entry.member);
    }
    let left = left.into_iter();
    left.map(|(member, score)| Entry { member, score })
        .collect()
}

/// ZUNION, ZINTER, ZDIFF: number of keys, keys, options.
pub(super) fn reply(
    context: &mut Context<'_>,
    command: &str,
    arguments: &[Vec<u8>],
    operation: Operation,
) -> Outcome {
    let (keys, behind) = keys(command, arguments)?;
    let sets = atomically(context.session, Kind::Read, |session| read(session, keys))?;
    let options = Options::parse(behind, keys.len(), operation, Purpose::Reply)?;
    let members = sets.members()?;
    let inputs = sets.inputs(&members, &options.weights);
    let mut entries = combined(operation, inputs, &options);
    sort(&mut entries);
    let form = Form::of(context.replies, options.with_scores);
    form.reply(context.replies, entries.iter())
}

/// ZINTERCARD: number of keys, keys, options.
pub(super) fn reply_len(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (keys, behind) = keys("zintercard", arguments)?;
    let operation = Operation::Intersection;
    let sets = atomically(context.session, Kind::Read, |session| read(session, keys))?;
    let options = Options::parse(behind, keys.len(), operation, Purpose::Count)?;
    let members = sets.members()?;
    let inputs = sets.inputs(&members, &options.weights);
    let entries = combined(operation, inputs, &options);
    context.replies.integer(entries.len() as i64);
    Ok(())
}

/// ZUNIONSTORE, ZINTERSTORE, ZDIFFSTORE: target, number of keys, keys, options.
pub(super) fn store_result(
    context: &mut Context<'_>,
    command: &str,
    arguments: &[Vec<u8>],
    operation: Operation,
) -> Outcome {
    let target = &arguments[0];
    let (keys, behind) = keys(command, &arguments[1..])?;
    let len = atomically(context.session, Kind::Write, |session| {
        // It may be one of the keys: no lock becomes a stronger one.
        session.without_misses(|session| session.head_for_update(target))?;
        let sets = read(session, keys)?;
        let options = Options::parse(behind, keys.len(), operation, Purpose::Store)?;
        let members = sets.members()?;
        let inputs = sets.inputs(&members, &options.weights);
        let entries = combined(operation, inputs, &options);
        let len = entries.len();
        let bytes = (len > 0).then(|| written(entries)).transpose()?;
        store(session, target, bytes.as_deref())?;
        Ok(len)
    })?;
    context.replies.integer(len as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregates() {
        let (infinity, zero) = (f64::INFINITY, 0.0);
        assert_eq!(Aggregate::Sum.of(infinity, -infinity), zero);
        assert_eq!(Aggregate::Sum.of(1.5, 2.0), 3.5);
        assert_eq!(Aggregate::Min.of(1.0, f64::NAN), 1.0);
        assert_eq!(Aggregate::Max.of(1.0, infinity), infinity);
    }
}
