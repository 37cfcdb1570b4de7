//! Ranges of members: ZRANGE and its kin, ZRANGESTORE.

use std::ops::Range;

use bpfdb::ValueType;
use bpfdb_values::run::Run;
use bpfdb_values::sorted_set::{Selection, SortedSet, write};

use super::super::arguments::{is, number, syntax_error};
use super::super::atomic::{Kind, atomically};
use super::super::collection::{Collection, read};
use super::super::look_up::look_up;
use super::super::prelude::*;
use super::scores::{By, Form};
use super::store;

/// What the name of a command says of its range; `None`: options may say it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) by: Option<By>,
    pub(super) is_descending: Option<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Options {
    by: Option<By>,
    is_descending: Option<bool>,
    offset: i64,
    count: i64,
    with_scores: bool,
}

impl Options {
    /// `stores`: WITHSCORES is no option.
    fn parse(mut words: &[Vec<u8>], named: Named, stores: bool) -> Result<Self, Failure> {
        let mut options = Self {
            by: named.by,
            is_descending: named.is_descending,
            offset: 0,
            count: -1,
            with_scores: false,
        };
        while let Some((word, behind)) = words.split_first() {
            words = behind;
            if !stores && is(word, "withscores") {
                options.with_scores = true;
            } else if is(word, "limit")
                && let [offset, count, behind @ ..] = behind
            {
                (options.offset, options.count) = (number(offset)?, number(count)?);
                words = behind;
            } else if options.is_descending.is_none() && is(word, "rev") {
                options.is_descending = Some(true);
            } else if options.by.is_none() && is(word, "bylex") {
                options.by = Some(By::Lex);
            } else if options.by.is_none() && is(word, "byscore") {
                options.by = Some(By::Score);
            } else {
                return Err(syntax_error());
            }
        }
        options.check()?;
        Ok(options)
    }

    fn by(&self) -> By {
        self.by.unwrap_or(By::Rank)
    }

    fn check(&self) -> Result<(), Failure> {
        if self.count != -1 && self.by() == By::Rank {
            return Err(
                "ERR syntax error, LIMIT is only supported in combination with either \
                        BYSCORE or BYLEX"
                    .into(),
            );
        }
        if self.with_scores && self.by() == By::Lex {
            return Err(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX".into(),
            );
        }
        Ok(())
    }

    /// Of the two ends: of scores and members in descending order the higher one comes first.
    fn selection<'a>(&self, first: &'a [u8], second: &'a [u8]) -> Result<Selection<'a>, Failure> {
        let is_descending = self.is_descending.unwrap_or(false);
        let (min, max) = if is_descending && self.by() != By::Rank {
            (second, first)
        } else {
            (first, second)
        };
        Ok(Selection {
            members: self.by().members(min, max)?,
            is_descending,
            offset: self.offset,
            count: self.count,
        })
    }
}

/// Key, ends, options. The reply is the members.
pub(super) fn reply_range(
    context: &mut Context<'_>,
    arguments: &[Vec<u8>],
    named: Named,
) -> Outcome {
    // With scores, and other options, it is the daemon's; the kernel knows LIMIT of a range by score.
    let is_limited = arguments.len() == 6 && is(&arguments[3], "limit");
    if arguments.len() > 3 && !(is_limited && named.by == Some(By::Score)) {
        context.set_needs_daemon(true);
    }
    let options = Options::parse(&arguments[3..], named, false)?;
    let selection = options.selection(&arguments[1], &arguments[2])?;
    let found = look_up(context, &arguments[0], ValueType::SORTED_SET, |set| {
        selected(set, &selection)
    })?;
    let replies = &mut *context.replies;
    let Some((bytes, places)) = found else {
        replies.array(0);
        return Ok(());
    };
    let set = SortedSet::read(&bytes)?;
    let selected = set.entries()[places].iter();
    let form = Form::of(replies, options.with_scores);
    if selection.is_descending {
        form.reply(replies, selected.rev())
    } else {
        form.reply(replies, selected)
    }
}

/// The bytes of a sorted set with the members of a selection, and where they are in it.
fn selected(
    set: Collection<'_>,
    selection: &Selection<'_>,
) -> Result<(Vec<u8>, Range<usize>), Failure> {
    match set {
        Collection::Small(bytes) => {
            let places = SortedSet::read(&bytes)?.select(selection);
            Ok((bytes, places))
        }
        Collection::Large(mut large) => {
            let numbers = large.select(selection)?;
            let bytes = large.elements(numbers)?;
            let places = 0..Run::parse(&bytes)?.len();
            Ok((bytes, places))
        }
    }
}

/// Target, key, ends, options. The reply is how many members the target has then.
pub(super) fn store_range(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let named = Named {
        by: None,
        is_descending: None,
    };
    let options = Options::parse(&arguments[4..], named, true)?;
    let selection = options.selection(&arguments[2], &arguments[3])?;
    let (target, source) = (&arguments[0], &arguments[1]);
    let len = atomically(context.session, Kind::Write, |session| {
        // It may be the source: no lock becomes a stronger one.
        session.without_misses(|session| session.head_for_update(target))?;
        let found = read(session, source, ValueType::SORTED_SET, |set| {
            selected(set, &selection)
        })?;
        let (bytes, places) = found.unwrap_or_else(|| (write(Vec::new()), 0..0));
        let set = SortedSet::read(&bytes)?;
        let selected = &set.entries()[places];
        let bytes = (!selected.is_empty()).then(|| write(selected.to_vec()));
        store(session, target, bytes.as_deref())?;
        Ok(selected.len())
    })?;
    context.replies.integer(len as i64);
    Ok(())
}
