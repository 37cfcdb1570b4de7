//! Members that get scores: ZADD and ZINCRBY.

use bpfdb::ValueType;
use bpfdb_values::sorted_set::Changes;

use super::super::arguments::{is, syntax_error};
use super::super::collection::{Change, Large, change_either};
use super::super::prelude::*;
use super::scores::{reply_score, score};

/// What is done to which members.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    only_new: bool,
    only_old: bool,
    only_greater: bool,
    only_less: bool,
    counts_changes: bool,
    increments: bool,
}

impl Options {
    /// The options, and the pairs behind them.
    fn parse(words: &[Vec<u8>], increments: bool) -> Result<(Self, Pairs<'_>), Failure> {
        let mut options = Self {
            increments,
            ..Self::default()
        };
        let count = words.iter().take_while(|word| options.takes(word)).count();
        let words = &words[count..];
        if words.is_empty() || !words.len().is_multiple_of(2) {
            return Err(syntax_error());
        }
        options.check(words.len() / 2)?;
        let pairs = words.chunks_exact(2);
        let pairs = pairs.map(|pair| Ok((score(&pair[0])?, &pair[1][..])));
        Ok((options, pairs.collect::<Result<_, Failure>>()?))
    }

    /// Is the word an option?
    fn takes(&mut self, word: &[u8]) -> bool {
        let Self {
            only_new,
            only_old,
            only_greater,
            only_less,
            counts_changes,
            increments,
        } = self;
        let flags = [
            ("nx", only_new),
            ("xx", only_old),
            ("gt", only_greater),
            ("lt", only_less),
            ("ch", counts_changes),
            ("incr", increments),
        ];
        let flag = flags.into_iter().find(|(name, _)| is(word, name));
        flag.map(|(_, flag)| *flag = true).is_some()
    }

    fn check(&self, pairs: usize) -> Result<(), Failure> {
        if self.only_new && self.only_old {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        let conditions = [self.only_new, self.only_greater, self.only_less];
        if conditions.iter().filter(|&&is_set| is_set).count() > 1 {
            return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
        }
        if self.increments && pairs > 1 {
            return Err("ERR INCR option supports a single increment-element pair".into());
        }
        Ok(())
    }

    /// The score that a member gets; `None`: it stays as it is.
    fn new_score(&self, old: Option<f64>, given: f64) -> Result<Option<f64>, Failure> {
        let Some(old) = old else {
            return Ok((!self.only_old).then_some(given));
        };
        if self.only_new {
            return Ok(None);
        }
        let new = if self.increments { old + given } else { given };
        if new.is_nan() {
            return Err("ERR resulting score is not a number (NaN)".into());
        }
        let is_kept = (self.only_less && new >= old) || (self.only_greater && new <= old);
        Ok((!is_kept).then_some(new))
    }
}

/// Scores and members.
type Pairs<'a> = Vec<(f64, &'a [u8])>;

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    added: usize,
    updated: usize,
    /// Of the last member that was not left as it is.
    score: Option<f64>,
}

/// Key, options, scores and members.
pub(in super::super) fn add(
    context: &mut Context<'_>,
    arguments: &[Vec<u8>],
    increments: bool,
) -> Outcome {
    let key = &arguments[0];
    let (options, pairs) = Options::parse(&arguments[1..], increments)?;
    let small = |old: Option<Vec<u8>>| {
        if old.is_none() && options.only_old {
            return Ok((Change::Nothing, Done::default()));
        }
        let mut changes = Changes::new(old.as_deref(), pairs.len())?;
        let done = apply(&mut Scores::Small(&mut changes), options, &pairs)?;
        if done.added + done.updated == 0 {
            return Ok((Change::Nothing, done));
        }
        Ok((changes.finish()?.into(), done))
    };
    let large = |large: &mut Large<'_>| apply(&mut Scores::Large(large), options, &pairs);
    let done = change_either(context.session, key, ValueType::SORTED_SET, small, large)?;
    let replies = &mut *context.replies;
    match done.score {
        Some(score) if options.increments => reply_score(replies, score),
        None if options.increments => replies.null(),
        _ if options.counts_changes => replies.integer((done.added + done.updated) as i64),
        _ => replies.integer(done.added as i64),
    }
    Ok(())
}

/// Scores of a sorted set that is changed.
#[derive(Debug)]
enum Scores<'f, 'a, 's> {
    Small(&'f mut Changes<'a>),
    Large(&'f mut Large<'s>),
}

impl<'a> Scores<'_, 'a, '_> {
    fn of(&mut self, member: &[u8]) -> Result<Option<f64>, Failure> {
        match self {
            Self::Small(changes) => Ok(changes.score(member)?),
            Self::Large(large) => large.score(member),
        }
    }

    fn set(&mut self, member: &'a [u8], score: f64) -> Outcome {
        match self {
            Self::Small(changes) => Ok(changes.set(member, score)?),
            Self::Large(large) => large.set_score(member, score),
        }
    }
}

fn apply<'a>(
    scores: &mut Scores<'_, 'a, '_>,
    options: Options,
    pairs: &[(f64, &'a [u8])],
) -> Result<Done, Failure> {
    let mut done = Done::default();
    for &(given, member) in pairs {
        let old = scores.of(member)?;
        let Some(new) = options.new_score(old, given)? else {
            continue;
        };
        done.score = Some(new);
        match old {
            None => done.added += 1,
            Some(old) if old == new => continue,
            Some(_) => done.updated += 1,
        }
        scores.set(member, new)?;
    }
    Ok(done)
}

/// Is there the option INCR?
pub(super) fn increments(words: &[Vec<u8>]) -> bool {
    Options::parse(words, false).is_ok_and(|(options, _)| options.increments)
}
