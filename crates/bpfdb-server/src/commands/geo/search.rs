//! Places within a circle or a box: GEOSEARCH, GEORADIUS and their kin.

use std::ops::Bound;

use bpfdb::{Session, ValueType};
use bpfdb_values::geo::{Place, Shape};
use bpfdb_values::sorted_set::{Entry, Members, ScoreRange, Selection, SortedSet, write};

use super::super::arguments::{is, number, syntax_error};
use super::super::atomic::{Kind, atomically};
use super::super::collection::{check_reply, load, put};
use super::super::definition::OptionWords;
use super::super::prelude::*;
use super::super::table::refuse_reserved;
use super::places::{float, place, reply_distance, reply_place, unit};
use crate::protocol::reply::Replies;

/// What the name of a command says of its arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) name: &'static str,
    pub(super) centre: Centre,
    pub(super) storing: Storing,
}

/// Where the centre and the shape are said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Centre {
    /// Behind the key: longitude, latitude, radius and unit.
    Coordinates,
    /// Behind the key: a member, radius and unit.
    Member,
    Options,
}

/// May what was found become a sorted set?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storing {
    Never,
    ByOption,
    /// Under the first key.
    Always,
}

/// A search as its arguments say.
#[derive(Debug, Default)]
struct Search {
    centre: Option<Place>,
    /// It was said, be it by a member of a set that is absent.
    has_centre: bool,
    /// It was said by coordinates.
    at_place: bool,
    shape: Option<Shape>,
    /// Metres.
    unit: f64,
    is_descending: Option<bool>,
    /// 0: all.
    count: usize,
    any: bool,
    with_distance: bool,
    with_score: bool,
    with_place: bool,
    stores: bool,
    stores_distances: bool,
}

/// A place that was found.
#[derive(Clone, Copy, Debug)]
struct Found<'a> {
    entry: Entry<'a>,
    place: Place,
    /// Metres from the centre.
    distance: f64,
}

pub(super) fn search(context: &mut Context<'_>, arguments: &[Vec<u8>], form: &Form) -> Outcome {
    let (target, words) = target(arguments, form);
    let Some(target) = target else {
        return reply_found(context, words, form);
    };
    refuse_reserved(target)?;
    let stored = atomically(context.session, Kind::Write, |session| {
        // It may be the source: no lock becomes a stronger one.
        session.without_misses(|session| session.head_for_update(target))?;
        with_found(session, words, form, |session, search, found| {
            store(session, target, search, found)
        })
    })?;
    context.replies.integer(stored as i64);
    Ok(())
}

fn reply_found(context: &mut Context<'_>, words: &[Vec<u8>], form: &Form) -> Outcome {
    let replies = &mut *context.replies;
    let start = replies.len();
    atomically(context.session, Kind::Read, |session| {
        replies.truncate(start);
        with_found(session, words, form, |_, search, found| {
            replies.array(found.len());
            for one in found {
                search.reply(replies, one);
                check_reply(replies, start)?;
            }
            Ok(())
        })
    })
    .inspect_err(|_| replies.truncate(start))
}

/// The key that gets what is found, and the arguments from the key that is searched.
fn target<'a>(arguments: &'a [Vec<u8>], form: &Form) -> (Option<&'a [u8]>, &'a [Vec<u8>]) {
    match form.storing {
        Storing::Never => (None, arguments),
        Storing::Always => (Some(&arguments[0]), &arguments[1..]),
        Storing::ByOption => (stored_by_option(&arguments[form.fixed()..]), arguments),
    }
}

/// Options with words of their own.
pub(super) const OPTIONS: OptionWords = &[("COUNT", 1), ("STORE", 1), ("STOREDIST", 1)];

/// The last one counts.
fn stored_by_option(mut words: &[Vec<u8>]) -> Option<&[u8]> {
    let mut target = None;
    while let Some((word, behind)) = words.split_first() {
        words = match behind {
            [key, behind @ ..] if is(word, "store") || is(word, "storedist") => {
                target = Some(&key[..]);
                behind
            }
            [_, behind @ ..] if is(word, "count") => behind,
            behind => behind,
        };
    }
    target
}

impl Form {
    /// Arguments before the options, the key included.
    fn fixed(&self) -> usize {
        match self.centre {
            Centre::Coordinates => 5,
            Centre::Member => 4,
            Centre::Options => 1,
        }
    }
}

/// Shows what the command finds to `work`.
fn with_found<T>(
    session: &mut Session,
    words: &[Vec<u8>],
    form: &Form,
    work: impl FnOnce(&mut Session, &Search, &[Found<'_>]) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let read = load(session, &words[0], ValueType::SORTED_SET)?;
    let set = read.as_ref().map(|read| SortedSet::read(&read.value));
    let set = set.transpose()?;
    let search = Search::parse(words, form, set.as_ref())?;
    let found = set.as_ref().map(|set| search.find(set));
    work(session, &search, &found.unwrap_or_default())
}

fn store(
    session: &mut Session,
    target: &[u8],
    search: &Search,
    found: &[Found<'_>],
) -> Result<usize, Failure> {
    let entries = found.iter().map(|one| Entry {
        member: one.entry.member,
        score: if search.stores_distances {
            one.distance / search.unit
        } else {
            one.entry.score
        },
    });
    let bytes = (!found.is_empty()).then(|| write(entries.collect()));
    put(
        session,
        target,
        ValueType::SORTED_SET,
        bytes.as_deref(),
        None,
    )?;
    Ok(found.len())
}

impl Search {
    fn parse(words: &[Vec<u8>], form: &Form, set: Option<&SortedSet<'_>>) -> Result<Self, Failure> {
        let mut search = Self {
            stores: form.storing == Storing::Always,
            ..Self::default()
        };
        match form.centre {
            Centre::Coordinates => {
                search.take_place(place(&words[1], &words[2])?);
                search.take_circle(&words[3], &words[4])?;
            }
            Centre::Member if set.is_none() => {}
            Centre::Member => {
                search.take_member(&words[1], set)?;
                search.take_circle(&words[2], &words[3])?;
            }
            Centre::Options => {}
        }
        let mut words = &words[form.fixed()..];
        while let Some((word, behind)) = words.split_first() {
            words = search.option(word, behind, form, set)?;
        }
        search.check(form)?;
        Ok(search)
    }

    /// Takes an option; what is behind it.
    fn option<'a>(
        &mut self,
        word: &[u8],
        behind: &'a [Vec<u8>],
        form: &Form,
        set: Option<&SortedSet<'_>>,
    ) -> Result<&'a [Vec<u8>], Failure> {
        if self.takes_flag(word) {
            return Ok(behind);
        }
        if let [count, behind @ ..] = behind
            && is(word, "count")
        {
            let count = number(count)?;
            if count <= 0 {
                return Err("ERR COUNT must be > 0".into());
            }
            self.count = usize::try_from(count).unwrap_or(usize::MAX);
            return Ok(behind);
        }
        match form.centre {
            Centre::Options => self.option_of_search(word, behind, form, set),
            _ if form.storing == Storing::ByOption => self.option_of_radius(word, behind),
            _ => Err(syntax_error()),
        }
    }

    fn takes_flag(&mut self, word: &[u8]) -> bool {
        if is(word, "asc") {
            self.is_descending = Some(false);
        } else if is(word, "desc") {
            self.is_descending = Some(true);
        } else if is(word, "any") {
            self.any = true;
        } else if is(word, "withdist") {
            self.with_distance = true;
        } else if is(word, "withhash") {
            self.with_score = true;
        } else if is(word, "withcoord") {
            self.with_place = true;
        } else {
            return false;
        }
        true
    }

    fn option_of_radius<'a>(
        &mut self,
        word: &[u8],
        behind: &'a [Vec<u8>],
    ) -> Result<&'a [Vec<u8>], Failure> {
        let [_, behind @ ..] = behind else {
            return Err(syntax_error());
        };
        if !is(word, "store") && !is(word, "storedist") {
            return Err(syntax_error());
        }
        self.stores = true;
        self.stores_distances = is(word, "storedist");
        Ok(behind)
    }

    fn option_of_search<'a>(
        &mut self,
        word: &[u8],
        behind: &'a [Vec<u8>],
        form: &Form,
        set: Option<&SortedSet<'_>>,
    ) -> Result<&'a [Vec<u8>], Failure> {
        match (behind, self.shape) {
            // As in Redis, a second member takes the place of the first one.
            ([member, behind @ ..], _) if is(word, "frommember") && !self.at_place => {
                self.take_member(member, set)?;
                Ok(behind)
            }
            ([longitude, latitude, behind @ ..], _)
                if is(word, "fromlonlat") && (!self.has_centre || self.at_place) =>
            {
                self.take_place(place(longitude, latitude)?);
                Ok(behind)
            }
            ([radius, unit, behind @ ..], None | Some(Shape::Circle { .. }))
                if is(word, "byradius") =>
            {
                self.take_circle(radius, unit)?;
                Ok(behind)
            }
            ([width, height, unit, behind @ ..], None | Some(Shape::Box { .. }))
                if is(word, "bybox") =>
            {
                self.take_box(width, height, unit)?;
                Ok(behind)
            }
            _ if form.storing == Storing::Always && is(word, "storedist") => {
                self.stores_distances = true;
                Ok(behind)
            }
            _ => Err(syntax_error()),
        }
    }

    fn check(&self, form: &Form) -> Outcome {
        if self.stores && (self.with_distance || self.with_score || self.with_place) {
            let what = match form.storing {
                Storing::Always => form.name,
                _ => "STORE option in GEORADIUS",
            };
            let options = "is not compatible with WITHDIST, WITHHASH and WITHCOORD options";
            return Err(format!("ERR {what} {options}").into());
        }
        if form.centre == Centre::Options {
            let choice = match (self.has_centre, self.shape) {
                (false, _) => "FROMMEMBER or FROMLONLAT",
                (_, None) => "BYRADIUS and BYBOX",
                _ => return self.check_count(),
            };
            let name = form.name;
            let text = format!("ERR exactly one of {choice} can be specified for {name}");
            return Err(text.into());
        }
        self.check_count()
    }

    fn check_count(&self) -> Outcome {
        if self.any && self.count == 0 {
            return Err("ERR the ANY argument requires COUNT argument".into());
        }
        Ok(())
    }

    fn take_place(&mut self, place: Place) {
        self.centre = Some(place);
        self.has_centre = true;
        self.at_place = true;
    }

    fn take_member(&mut self, member: &[u8], set: Option<&SortedSet<'_>>) -> Outcome {
        self.has_centre = true;
        let Some(set) = set else {
            return Ok(());
        };
        let entry = set.entries().iter().find(|entry| entry.member == member);
        let Some(entry) = entry else {
            return Err("ERR could not decode requested zset member".into());
        };
        self.centre = Some(Place::of_score(entry.score));
        Ok(())
    }

    fn take_circle(&mut self, radius: &[u8], unit_word: &[u8]) -> Outcome {
        let radius = float(radius, "ERR need numeric radius")?;
        if radius < 0.0 {
            return Err("ERR radius cannot be negative".into());
        }
        self.unit = unit(unit_word)?;
        self.shape = Some(Shape::Circle {
            radius: radius * self.unit,
        });
        Ok(())
    }

    fn take_box(&mut self, width: &[u8], height: &[u8], unit_word: &[u8]) -> Outcome {
        let width = float(width, "ERR need numeric width")?;
        let height = float(height, "ERR need numeric height")?;
        if height < 0.0 || width < 0.0 {
            return Err("ERR height or width cannot be negative".into());
        }
        self.unit = unit(unit_word)?;
        self.shape = Some(Shape::Box {
            width: width * self.unit,
            height: height * self.unit,
        });
        Ok(())
    }

    /// In the order in which they are replied.
    fn find<'a>(&self, set: &SortedSet<'a>) -> Vec<Found<'a>> {
        let (Some(centre), Some(shape)) = (self.centre, self.shape) else {
            return Vec::new();
        };
        let ranges = shape.ranges(centre).into_iter();
        let entries = ranges.flat_map(|(min, max)| {
            let (min, max) = (Bound::Included(min), Bound::Excluded(max));
            let scores = Members::Scores(ScoreRange { min, max });
            &set.entries()[set.select(&Selection::all(scores))]
        });
        let found = entries.filter_map(|&entry| {
            let place = Place::of_score(entry.score);
            let distance = shape.distance(centre, place)?;
            Some(Found {
                entry,
                place,
                distance,
            })
        });
        let count = if self.count > 0 {
            self.count
        } else {
            usize::MAX
        };
        let mut found: Vec<Found<'a>> = found
            .take(if self.any { count } else { usize::MAX })
            .collect();
        // The nearest ones, if not any may be left out.
        let is_sorted = self.is_descending.is_some() || (self.count > 0 && !self.any);
        if is_sorted {
            found.sort_by(|one, other| {
                let (one, other) = if self.is_descending == Some(true) {
                    (other, one)
                } else {
                    (one, other)
                };
                one.distance.total_cmp(&other.distance)
            });
        }
        found.truncate(count);
        found
    }

    fn reply(&self, replies: &mut Replies, found: &Found<'_>) {
        let more = [self.with_distance, self.with_score, self.with_place];
        let more = more.iter().filter(|&&with| with).count();
        if more > 0 {
            replies.array(1 + more);
        }
        replies.bulk(found.entry.member);
        if self.with_distance {
            reply_distance(replies, found.distance / self.unit);
        }
        if self.with_score {
            replies.integer(found.entry.score as i64);
        }
        if self.with_place {
            reply_place(replies, found.place);
        }
    }
}
