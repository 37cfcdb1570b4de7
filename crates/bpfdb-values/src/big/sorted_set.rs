//! Sorted sets: a table of members and their scores, and a tree of both in their order.

use std::ops::{Bound, Range};

use super::Big;
use super::children::Aim;
use super::order::{order, order_of, sortable_of, stored_of};
use super::page::Pages;
use crate::limits::{Kind, is_beyond};
use crate::places;
use crate::run::{self, Malformed, Run};
use crate::sorted_set::{LexEnd, LexRange, Members, ScoreRange, Selection, SortedSet, kept, part};

impl<P: Pages> Big<P> {
    /// The score of a member.
    ///
    /// # Errors
    /// Those of the pages, as of all that follow.
    pub fn score(&mut self, member: &[u8]) -> Result<Option<f64>, P::Error> {
        let value = self.find(member)?;
        let stored = value.as_deref().map(stored_of).transpose()?;
        Ok(stored.map(run::score))
    }

    /// Gives a member a score, which is a number; the member may be new.
    pub fn set_score(&mut self, member: &[u8], score: f64) -> Result<(), P::Error> {
        let new = run::sortable(score);
        // Zero, or minus zero.
        let score = match score {
            zero if zero == 0.0 => kept(zero, self.is_beyond_with(member)?),
            score => score,
        };
        let value = run::stored(score).to_le_bytes();
        let old = self.insert_into_table(member, &value)?;
        if let Some(old) = old {
            self.remove_order(&order(sortable_of(&old)?, member))?;
        }
        let Some(path) = self.path(Aim::Order(&order(new, member)))? else {
            return self.plant(&[(member, &value)]);
        };
        let place = place_of(&self.leaf(&path)?, &order(new, member))?;
        self.edit(&path, place..place, &[(member, &value)])
    }

    /// With this member, is the set kept in no compact encoding? Large sets are so, but for those of tests.
    fn is_beyond_with(&mut self, member: &[u8]) -> Result<bool, P::Error> {
        if self.head.history.not_compact {
            return Ok(true);
        }
        let is_new = self.find(member)?.is_none();
        let members = self.head.elements + u64::from(is_new);
        let members = usize::try_from(members).unwrap_or(usize::MAX);
        Ok(is_beyond(Kind::SortedSet, members, member.len()))
    }

    /// Was it a member?
    pub fn remove_member(&mut self, member: &[u8]) -> Result<bool, P::Error> {
        let Some(old) = self.remove_from_table(member)? else {
            return Ok(false);
        };
        self.remove_order(&order(sortable_of(&old)?, member))?;
        Ok(true)
    }

    fn remove_order(&mut self, order: &[u8]) -> Result<(), P::Error> {
        let path = self.path(Aim::Order(order))?.ok_or(NOT_IN_ORDER)?;
        let run = self.leaf(&path)?;
        let place = place_of(&run, order)?;
        let entry = run.iter().nth(place).ok_or(NOT_IN_ORDER)??;
        if order_of(entry)? != order {
            return Err(NOT_IN_ORDER.into());
        }
        self.edit(&path, place..place + 1, &[])
    }

    /// How many members are before this one.
    pub fn rank(&mut self, member: &[u8]) -> Result<Option<u64>, P::Error> {
        let Some(value) = self.find(member)? else {
            return Ok(None);
        };
        let order = order(sortable_of(&value)?, member);
        self.before(&order).map(Some)
    }

    /// How many members are before this order.
    fn before(&mut self, order: &[u8]) -> Result<u64, P::Error> {
        let Some(path) = self.path(Aim::Order(order))? else {
            return Ok(0);
        };
        let place = place_of(&self.leaf(&path)?, order)?;
        Ok(path.before + place as u64)
    }

    /// The numbers of the selection's members among all, in ascending order.
    pub fn select(&mut self, selection: &Selection<'_>) -> Result<Range<u64>, P::Error> {
        let len = usize::try_from(self.head.elements).unwrap_or(usize::MAX);
        let found = match &selection.members {
            Members::Ranks(first, last) => {
                let ranks = places::range(*first, *last, len);
                return Ok(numbers(if selection.is_descending {
                    places::mirrored(&ranks, len)
                } else {
                    ranks
                }));
            }
            Members::Scores(scores) => self.of_scores(scores)?,
            Members::Lex(lex) => match self.between(lex)? {
                Some(found) => found,
                None => return self.select_whole(selection),
            },
        };
        let found = found.start as usize..found.end as usize;
        Ok(numbers(part(found, selection)))
    }

    fn of_scores(&mut self, scores: &ScoreRange) -> Result<Range<u64>, P::Error> {
        let behind = |sortable: u64| order(sortable.saturating_add(1), &[]);
        let from = match scores.min {
            Bound::Unbounded | Bound::Included(f64::NEG_INFINITY) => None,
            Bound::Included(min) => Some(order(run::sortable(min), &[])),
            Bound::Excluded(min) => Some(behind(run::sortable(min))),
        };
        let to = match scores.max {
            Bound::Unbounded | Bound::Included(f64::INFINITY) => None,
            Bound::Included(max) => Some(behind(run::sortable(max))),
            Bound::Excluded(max) => Some(order(run::sortable(max), &[])),
        };
        // Pages that are missing for both ends are asked for at once.
        let start = from.map_or(Ok(0), |from| self.before(&from));
        let end = to.map_or(Ok(self.head.elements), |to| self.before(&to));
        let start = start?;
        Ok(start..end?.max(start))
    }

    /// `None`: scores differ. Then members are not in the order of their bytes.
    fn between(&mut self, lex: &LexRange<'_>) -> Result<Option<Range<u64>>, P::Error> {
        let len = self.head.elements;
        if len == 0 {
            return Ok(Some(0..0));
        }
        let (first, last) = (self.sortable_at(0)?, self.sortable_at(len - 1)?);
        if first != last {
            return Ok(None);
        }
        let start = self.before_end(first, lex.min, false)?;
        let end = self.before_end(first, lex.max, true)?;
        Ok(Some(start..end.max(start)))
    }

    /// How many members are before an end of a range; `is_last`: the end itself is among them.
    fn before_end(&mut self, score: u64, end: LexEnd<'_>, is_last: bool) -> Result<u64, P::Error> {
        let (member, is_passed) = match end {
            LexEnd::BelowAll => return Ok(0),
            LexEnd::AboveAll => return Ok(self.head.elements),
            LexEnd::Included(member) => (member, is_last),
            LexEnd::Excluded(member) => (member, !is_last),
        };
        let mut order = order(score, member);
        if is_passed {
            // Nothing is between a string and the same with a zero behind it.
            order.push(0);
        }
        self.before(&order)
    }

    fn sortable_at(&mut self, number: u64) -> Result<u64, P::Error> {
        let path = self.path(Aim::Number(number))?.ok_or(NOT_IN_ORDER)?;
        let place = (number - path.before) as usize;
        let (_, value) = self.leaf(&path)?.iter().nth(place).ok_or(NOT_IN_ORDER)??;
        Ok(sortable_of(value)?)
    }

    /// As a small sorted set selects.
    fn select_whole(&mut self, selection: &Selection<'_>) -> Result<Range<u64>, P::Error> {
        let whole = self.whole()?;
        Ok(numbers(SortedSet::read(&whole)?.select(selection)))
    }

    /// Removes the members with these numbers, which there are: their bytes, as those of a sorted set.
    pub fn take_members(&mut self, numbers: Range<u64>) -> Result<Vec<u8>, P::Error> {
        let taken = self.elements(numbers.clone())?;
        self.cut(numbers)?;
        for entry in Run::parse(&taken)?.iter() {
            self.remove_from_table(entry?.0)?;
        }
        Ok(taken)
    }
}

fn numbers(places: Range<usize>) -> Range<u64> {
    places.start as u64..places.end as u64
}

/// The place of the first entry of a leaf that is not before this order.
fn place_of(run: &Run<'_>, order: &[u8]) -> Result<usize, Malformed> {
    for (place, entry) in run.iter().enumerate() {
        let (member, value) = entry?;
        let score = sortable_of(value)?.to_be_bytes();
        let is_before = match order.split_at_checked(score.len()) {
            Some((wanted, rest)) => (&score[..], member) < (wanted, rest),
            None => &score[..] < order,
        };
        if !is_before {
            return Ok(place);
        }
    }
    Ok(run.len())
}

const NOT_IN_ORDER: Malformed = Malformed("table and tree of a large sorted set differ");
