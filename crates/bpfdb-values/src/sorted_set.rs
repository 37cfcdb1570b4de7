//! Sorted sets: a run whose keys are the members, in ascending order of score, then of member. Scores
//! are the values, as eight bytes of [`run::stored`]. Redis has no minus zero in its compact encoding: a set that
//! is kept so has zero instead.
//!
//! ```text
//! score()      one member, found in the run
//! SortedSet    all members in their order: ranks and ranges
//! Changes      members that get scores, or go
//! ```

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::{Bound, Range};

use crate::edit::Writer;
use crate::limits::{COMPACT_BYTES, Kind, SORTED_SET_ENTRIES, is_beyond};
use crate::places;
use crate::run::{self, History, Malformed, Run};

/// So many changes are made one by one: each copies the run once.
const EDITS_MAX: usize = 4;

/// A member and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<'a> {
    pub member: &'a [u8],
    pub score: f64,
}

/// As OBJECT ENCODING of Redis 7.0 names it, with its default limits.
pub fn encoding(run: &Run<'_>) -> &'static str {
    if run.history().not_compact {
        "skiplist"
    } else {
        "listpack"
    }
}

/// The score of a member.
///
/// # Errors
/// A damaged entry before it, as in all that follow.
pub fn score(run: &Run<'_>, member: &[u8]) -> Result<Option<f64>, Malformed> {
    run.find(member)?.map(score_of).transpose()
}

/// The score that is the value of an entry.
///
/// # Errors
/// It has not eight bytes.
pub fn score_of(value: &[u8]) -> Result<f64, Malformed> {
    stored_of(value).map(run::score)
}

fn stored_of(value: &[u8]) -> Result<u64, Malformed> {
    let bytes = value.try_into();
    bytes
        .map(u64::from_le_bytes)
        .map_err(|_| Malformed("a score that has not eight bytes"))
}

fn sortable_of(value: &[u8]) -> Result<u64, Malformed> {
    stored_of(value).map(run::order_of)
}

/// A sorted set as it is read: it borrows the bytes.
#[derive(Clone, Debug)]
pub struct SortedSet<'a> {
    run: Run<'a>,
    entries: Vec<Entry<'a>>,
}

/// Members with these scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreRange {
    pub min: Bound<f64>,
    pub max: Bound<f64>,
}

/// An end of a range of members, by their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexEnd<'a> {
    BelowAll,
    AboveAll,
    Included(&'a [u8]),
    Excluded(&'a [u8]),
}

/// Members between these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexRange<'a> {
    pub min: LexEnd<'a>,
    pub max: LexEnd<'a>,
}

/// Which members are meant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Members<'a> {
    /// From this rank to that one, both included; from the end they are negative. Of a selection in
    /// descending order the highest member has rank 0.
    Ranks(i64, i64),
    Scores(ScoreRange),
    Lex(LexRange<'a>),
}

/// Which members are meant, in which order, and which part of them.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    pub members: Members<'a>,
    pub is_descending: bool,
    /// Members that are passed over; negative: all.
    pub offset: i64,
    /// Negative: all.
    pub count: i64,
}

impl<'a> Selection<'a> {
    /// All of these, in ascending order.
    pub fn all(members: Members<'a>) -> Self {
        Self {
            members,
            is_descending: false,
            offset: 0,
            count: -1,
        }
    }
}

impl ScoreRange {
    fn is_below(&self, score: f64) -> bool {
        match self.min {
            Bound::Included(min) => score < min,
            Bound::Excluded(min) => score <= min,
            Bound::Unbounded => false,
        }
    }

    fn is_above(&self, score: f64) -> bool {
        match self.max {
            Bound::Included(max) => score > max,
            Bound::Excluded(max) => score >= max,
            Bound::Unbounded => false,
        }
    }
}

impl LexRange<'_> {
    fn is_below(&self, member: &[u8]) -> bool {
        match self.min {
            LexEnd::BelowAll => false,
            LexEnd::AboveAll => true,
            LexEnd::Included(min) => member < min,
            LexEnd::Excluded(min) => member <= min,
        }
    }

    fn is_above(&self, member: &[u8]) -> bool {
        match self.max {
            LexEnd::BelowAll => true,
            LexEnd::AboveAll => false,
            LexEnd::Included(max) => member > max,
            LexEnd::Excluded(max) => member >= max,
        }
    }
}

impl<'a> SortedSet<'a> {
    /// # Errors
    /// Bytes that are no run, damaged entries, and members that are not in order.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let run = Run::parse(bytes)?;
        let mut entries: Vec<Entry<'a>> = Vec::new();
        let mut before = None;
        for entry in run.iter() {
            let (member, value) = entry?;
            let here = (sortable_of(value)?, member);
            if before.is_some_and(|before| before >= here) {
                return Err(Malformed("members that are not in order"));
            }
            before = Some(here);
            let score = score_of(value)?;
            if score.is_nan() {
                return Err(Malformed("a score that is no number"));
            }
            entries.push(Entry { member, score });
        }
        Ok(Self { run, entries })
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// In ascending order.
    pub fn entries(&self) -> &[Entry<'a>] {
        &self.entries
    }

    pub fn encoding(&self) -> &'static str {
        encoding(&self.run)
    }

    /// How many members are before this one.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        self.entries.iter().position(|entry| entry.member == member)
    }

    /// The places of the selection's members among all, in ascending order.
    pub fn select(&self, selection: &Selection<'_>) -> Range<usize> {
        let found = match &selection.members {
            Members::Ranks(first, last) => {
                let ranks = places::range(*first, *last, self.len());
                return if selection.is_descending {
                    places::mirrored(&ranks, self.len())
                } else {
                    ranks
                };
            }
            Members::Scores(scores) => self.of_scores(scores),
            Members::Lex(lex) => self.between(lex, selection.is_descending),
        };
        part(found, selection)
    }

    fn of_scores(&self, scores: &ScoreRange) -> Range<usize> {
        let entries = &self.entries;
        let start = entries.partition_point(|entry| scores.is_below(entry.score));
        let end = entries.partition_point(|entry| !scores.is_above(entry.score));
        start..end.max(start)
    }

    /// As Redis finds them: members are in the order of their bytes only if all scores are equal, and
    /// if not, what it finds depends on where it begins.
    fn between(&self, lex: &LexRange<'_>, is_descending: bool) -> Range<usize> {
        let entries = &self.entries;
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return 0..0;
        };
        if lex.is_below(last.member) || lex.is_above(first.member) {
            return 0..0;
        }
        if is_descending {
            let is_within = |entry: &Entry<'_>| !lex.is_above(entry.member);
            let end = entries
                .iter()
                .rposition(is_within)
                .map_or(0, |last| last + 1);
            let is_out = |entry: &Entry<'_>| lex.is_below(entry.member);
            let start = entries[..end].iter().rposition(is_out);
            start.map_or(0, |out| out + 1)..end
        } else {
            let is_within = |entry: &Entry<'_>| !lex.is_below(entry.member);
            let start = entries.iter().position(is_within).unwrap_or(entries.len());
            let is_out = |entry: &Entry<'_>| lex.is_above(entry.member);
            let len = entries[start..].iter().position(is_out);
            start..len.map_or(entries.len(), |len| start + len)
        }
    }

    /// The bytes of the set without the members in these places; `None`: it has no other.
    pub fn without(&self, places: Range<usize>) -> Result<Option<Vec<u8>>, Malformed> {
        if places.len() == self.len() {
            return Ok(None);
        }
        self.run.replace(places, std::iter::empty()).map(Some)
    }
}

/// What the offset and the count of a selection leave of its members.
pub(crate) fn part(found: Range<usize>, selection: &Selection<'_>) -> Range<usize> {
    let len = found.len();
    let passed = usize::try_from(selection.offset).map_or(len, |offset| offset.min(len));
    let count = usize::try_from(selection.count).map_or(len, |count| count.min(len));
    let count = count.min(len - passed);
    if selection.is_descending {
        let end = found.end - passed;
        end - count..end
    } else {
        let start = found.start + passed;
        start..start + count
    }
}

/// The bytes of a new sorted set with these members, which are in any order, each of them once.
///
/// # Panics
/// Entries of 4 GiB and more: callers refuse them long before.
pub fn write(mut entries: Vec<Entry<'_>>) -> Vec<u8> {
    sort(&mut entries);
    let longest = entries.iter().map(|entry| entry.member.len()).max();
    if !is_beyond(Kind::SortedSet, entries.len(), longest.unwrap_or(0)) {
        for entry in &mut entries {
            entry.score = without_minus_zero(entry.score);
        }
    }
    write_in_order(&entries, History::default())
}

/// The score that Redis keeps in its compact encoding.
fn without_minus_zero(score: f64) -> f64 {
    score + 0.0
}

/// The score that is kept of this one.
pub(crate) fn kept(score: f64, not_compact: bool) -> f64 {
    if not_compact {
        score
    } else {
        without_minus_zero(score)
    }
}

/// Puts entries into the order of a sorted set.
pub fn sort(entries: &mut [Entry<'_>]) {
    entries.sort_unstable_by(|a, b| position(a).cmp(&position(b)));
}

fn position<'e>(entry: &Entry<'e>) -> (u64, &'e [u8]) {
    (run::sortable(entry.score), entry.member)
}

fn write_in_order(entries: &[Entry<'_>], history: History) -> Vec<u8> {
    let blank = [0; 8];
    let sizes = entries.iter().map(|entry| (entry.member, &blank[..]));
    let mut writer = Writer::new(&Run::with_history(history), sizes);
    for entry in entries {
        writer.push(entry.member, &run::stored(entry.score).to_le_bytes());
    }
    finish(writer)
}

fn finish(mut writer: Writer) -> Vec<u8> {
    let is_compact = writer.count() <= SORTED_SET_ENTRIES;
    let history = writer.history();
    history.not_compact |= !is_compact || history.longest as usize > COMPACT_BYTES;
    writer.finish()
}

/// Changes of a sorted set: a few are edits of its run, more are made in a table.
#[derive(Debug)]
pub struct Changes<'a>(Form<'a>);

#[derive(Debug)]
enum Form<'a> {
    /// The bytes; empty: no members.
    Edits(Cow<'a, [u8]>),
    /// The history is that of the members so far.
    Table(HashMap<&'a [u8], f64>, History),
}

impl<'a> Changes<'a> {
    /// Of the set with these bytes, about so many; `None`: of one that is absent.
    pub fn new(bytes: Option<&'a [u8]>, changes: usize) -> Result<Self, Malformed> {
        if changes <= EDITS_MAX {
            return Ok(Self(Form::Edits(bytes.unwrap_or_default().into())));
        }
        let Some(bytes) = bytes else {
            return Ok(Self(Form::Table(HashMap::new(), History::default())));
        };
        let set = SortedSet::read(bytes)?;
        let entries = set.entries.iter();
        let table = entries.map(|entry| (entry.member, entry.score)).collect();
        Ok(Self(Form::Table(table, set.run.history())))
    }

    pub fn score(&self, member: &[u8]) -> Result<Option<f64>, Malformed> {
        match &self.0 {
            Form::Edits(bytes) => score(&parse(bytes)?, member),
            Form::Table(table, _) => Ok(table.get(member).copied()),
        }
    }

    /// Gives a member a score, which is a number; the member may be new.
    pub fn set(&mut self, member: &'a [u8], score: f64) -> Result<(), Malformed> {
        match &mut self.0 {
            Form::Edits(bytes) => *bytes = edited(&parse(bytes)?, member, Some(score))?.into(),
            Form::Table(table, history) => {
                let is_new = !table.contains_key(member);
                let members = table.len() + usize::from(is_new);
                history.not_compact |= is_beyond(Kind::SortedSet, members, member.len());
                table.insert(member, kept(score, history.not_compact));
            }
        }
        Ok(())
    }

    /// Was it a member?
    pub fn remove(&mut self, member: &[u8]) -> Result<bool, Malformed> {
        match &mut self.0 {
            Form::Edits(bytes) => {
                let run = parse(bytes)?;
                let is_member = run.find(member)?.is_some();
                if is_member {
                    *bytes = edited(&run, member, None)?.into();
                }
                Ok(is_member)
            }
            Form::Table(table, _) => Ok(table.remove(member).is_some()),
        }
    }

    /// The bytes; `None`: there is no member.
    pub fn finish(self) -> Result<Option<Vec<u8>>, Malformed> {
        match self.0 {
            Form::Edits(bytes) => {
                let is_empty = parse(&bytes)?.is_empty();
                Ok((!is_empty).then(|| bytes.into_owned()))
            }
            Form::Table(table, _) if table.is_empty() => Ok(None),
            Form::Table(table, history) => {
                let entries = table.into_iter();
                let mut entries: Vec<Entry<'_>> = entries
                    .map(|(member, score)| Entry { member, score })
                    .collect();
                sort(&mut entries);
                Ok(Some(write_in_order(&entries, history)))
            }
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Run<'_>, Malformed> {
    if bytes.is_empty() {
        return Ok(Run::empty());
    }
    Run::parse(bytes)
}

/// With this member, is the set kept in no compact encoding?
fn is_beyond_with(run: &Run<'_>, member: &[u8]) -> Result<bool, Malformed> {
    if run.history().not_compact {
        return Ok(true);
    }
    let is_new = run.find(member)?.is_none();
    let members = run.len() + usize::from(is_new);
    Ok(is_beyond(Kind::SortedSet, members, member.len()))
}

/// The bytes of the run after the member has got this score, or has gone.
fn edited(run: &Run<'_>, member: &[u8], score: Option<f64>) -> Result<Vec<u8>, Malformed> {
    let score = match score {
        // Zero, or minus zero.
        Some(zero) if zero == 0.0 => Some(kept(zero, is_beyond_with(run, member)?)),
        score => score,
    };
    let new_value = score.map(|score| run::stored(score).to_le_bytes());
    let new = new_value.as_ref().map(|value| (member, &value[..]));
    let score = score.map(run::sortable);
    let (mut old_place, mut new_place) = (None, None);
    let mut entries = run.iter();
    loop {
        let here = entries.clone();
        let Some(entry) = entries.next() else { break };
        let (other, value) = entry?;
        if let (Some(score), None) = (score, &new_place)
            && (sortable_of(value)?, other) >= (score, member)
        {
            new_place = Some(here.clone());
        }
        if other == member {
            old_place = Some((here, entries.clone()));
        }
    }
    let end = entries;
    let new_place = new_place.unwrap_or_else(|| end.clone());
    // An absent member leaves from the end, where nothing is.
    let (old_place, behind_old) = old_place.unwrap_or_else(|| (end.clone(), end));
    let mut writer = Writer::new(run, new.into_iter());
    let push = |writer: &mut Writer| new.iter().for_each(|(key, value)| writer.push(key, value));
    if new_place.left >= old_place.left {
        writer.keep(run.iter().until(&new_place))?;
        push(&mut writer);
        writer.keep(new_place.until(&old_place))?;
        writer.keep(behind_old)?;
    } else {
        writer.keep(run.iter().until(&old_place))?;
        writer.keep(behind_old.until(&new_place))?;
        push(&mut writer);
        writer.keep(new_place)?;
    }
    Ok(finish(writer))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    type Model = BTreeMap<Vec<u8>, f64>;

    fn member() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            12 => "[a-e]{0,2}".prop_map(String::into_bytes),
            1 => vec(any::<u8>(), 254..258),
        ]
    }

    fn score_value() -> impl Strategy<Value = f64> {
        prop_oneof![
            6 => (-3..3_i32).prop_map(f64::from),
            1 => any::<f64>().prop_filter("a number", |score| !score.is_nan()),
            1 => Just(f64::INFINITY),
            1 => Just(f64::NEG_INFINITY),
        ]
    }

    /// `None`: the member goes.
    fn changes() -> impl Strategy<Value = Vec<(Vec<u8>, Option<f64>)>> {
        vec(
            (member(), proptest::option::weighted(0.7, score_value())),
            0..40,
        )
    }

    fn sorted(model: &Model) -> Vec<(f64, Vec<u8>)> {
        let mut all: Vec<_> = model
            .iter()
            .map(|(member, &score)| (score, member.clone()))
            .collect();
        all.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
        all
    }

    fn entries(set: &SortedSet<'_>) -> Vec<(f64, Vec<u8>)> {
        let all = set.entries().iter();
        all.map(|entry| (entry.score, entry.member.to_vec()))
            .collect()
    }

    fn set_of(model: &Model) -> Option<Vec<u8>> {
        let all = model.iter();
        let all: Vec<Entry<'_>> = all
            .map(|(member, &score)| Entry { member, score })
            .collect();
        (!all.is_empty()).then(|| write(all))
    }

    proptest! {
        #[test]
        fn changes_are_those_of_a_map(steps in vec(changes(), 0..6), few: bool) {
            let mut model = Model::new();
            let mut bytes: Option<Vec<u8>> = None;
            for step in &steps {
                let count = if few { 1 } else { step.len() + EDITS_MAX };
                let mut changes = Changes::new(bytes.as_deref(), count).expect("sound");
                for (member, score) in step {
                    prop_assert_eq!(changes.score(member).expect("sound"), model.get(member).copied());
                    match score {
                        Some(score) => {
                            changes.set(member, *score).expect("sound");
                            model.insert(member.clone(), *score);
                        }
                        None => {
                            let was = changes.remove(member).expect("sound");
                            prop_assert_eq!(was, model.remove(member).is_some());
                        }
                    }
                }
                bytes = changes.finish().expect("sound");
                let Some(bytes) = &bytes else {
                    prop_assert!(model.is_empty());
                    continue;
                };
                let set = SortedSet::read(bytes).expect("sound");
                prop_assert_eq!(entries(&set), sorted(&model));
                let run = Run::parse(bytes).expect("a run");
                for (rank, (expected, member)) in sorted(&model).iter().enumerate() {
                    prop_assert_eq!(set.rank(member), Some(rank));
                    prop_assert_eq!(score(&run, member).expect("sound"), Some(*expected));
                }
                let longest = model.keys().map(Vec::len).max();
                prop_assert!(longest <= Some(64) || set.encoding() == "skiplist");
            }
        }

        #[test]
        fn ranges_are_those_of_a_filter(
            model in proptest::collection::btree_map(member(), score_value(), 1..20),
            min in score_value(),
            max in score_value(),
            (opens_min, opens_max, is_descending) in any::<(bool, bool, bool)>(),
            offset in -1..5_i64,
            count in -1..5_i64,
            places in (0..9_usize, 0..9_usize),
        ) {
            let bytes = set_of(&model).expect("members");
            let set = SortedSet::read(&bytes).expect("sound");
            let bound = |value, opens| if opens { Bound::Excluded(value) } else { Bound::Included(value) };
            let range = ScoreRange { min: bound(min, opens_min), max: bound(max, opens_max) };
            let is_in = |score: f64| {
                (if opens_min { score > min } else { score >= min })
                    && (if opens_max { score < max } else { score <= max })
            };
            let selection = Selection { members: Members::Scores(range), is_descending, offset, count };
            let mut expected: Vec<_> = sorted(&model).into_iter().filter(|&(score, _)| is_in(score)).collect();
            if is_descending {
                expected.reverse();
            }
            let passed = usize::try_from(offset).unwrap_or(usize::MAX);
            let most = usize::try_from(count).unwrap_or(usize::MAX);
            let expected: Vec<_> = expected.into_iter().skip(passed).take(most).collect();
            let found = set.select(&selection);
            let mut selected = entries(&set)[found.clone()].to_vec();
            if is_descending {
                selected.reverse();
            }
            prop_assert_eq!(selected, expected);

            let end = places.1.min(set.len());
            let places = places.0.min(end)..end;
            let mut left = entries(&set);
            left.drain(places.clone());
            let without = set.without(places).expect("sound");
            prop_assert_eq!(without.is_none(), left.is_empty());
            if let Some(bytes) = without {
                prop_assert_eq!(entries(&SortedSet::read(&bytes).expect("sound")), left);
            }
        }

        #[test]
        fn members_of_one_score_are_in_the_order_of_their_bytes(
            members in proptest::collection::btree_set(member(), 1..20),
            (min, max) in (member(), member()),
            (opens_min, opens_max, is_descending) in any::<(bool, bool, bool)>(),
        ) {
            let all: Vec<Entry<'_>> = members.iter().map(|member| Entry { member, score: 1.0 }).collect();
            let bytes = write(all);
            let set = SortedSet::read(&bytes).expect("sound");
            let range = LexRange {
                min: if opens_min { LexEnd::Excluded(&min) } else { LexEnd::Included(&min) },
                max: if opens_max { LexEnd::Excluded(&max) } else { LexEnd::Included(&max) },
            };
            let selection = Selection { is_descending, ..Selection::all(Members::Lex(range)) };
            let found: Vec<&[u8]> = set.entries()[set.select(&selection)].iter().map(|entry| entry.member).collect();
            let expected = members.iter().filter(|member| {
                (if opens_min { **member > min } else { **member >= min })
                    && (if opens_max { **member < max } else { **member <= max })
            });
            prop_assert_eq!(found, expected.map(|member| &member[..]).collect::<Vec<_>>());
        }

        #[test]
        fn damaged_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..99), count in 0..5_u32, wide: bool) {
            let mut bytes = bytes;
            if let Some(entries) = bytes.len().checked_sub(run::HEADER) {
                bytes[0..4].copy_from_slice(&count.to_le_bytes());
                bytes[4..8].copy_from_slice(&(entries as u32).to_le_bytes());
                bytes[12..16].copy_from_slice(&[wide.into(), 0, 0, 0]);
            }
            let _ = SortedSet::read(&bytes);
            if let Ok(mut changes) = Changes::new(Some(&bytes), 1) {
                let _ = changes.set(b"a", 1.0);
                let _ = changes.remove(b"");
                let _ = changes.finish();
            }
        }
    }

    #[test]
    fn encodings_stay_once_they_are_large() {
        let members: Vec<Vec<u8>> = (0..129_u32).map(|n| n.to_string().into_bytes()).collect();
        for few in [true, false] {
            let mut bytes = None;
            for (n, member) in members.iter().enumerate() {
                let mut changes =
                    Changes::new(bytes.as_deref(), if few { 1 } else { 9 }).expect("sound");
                changes.set(member, 1.0).expect("sound");
                let changed = changes.finish().expect("sound").expect("members");
                let expected = if n < 128 { "listpack" } else { "skiplist" };
                assert_eq!(
                    SortedSet::read(&changed).expect("sound").encoding(),
                    expected,
                    "{n}"
                );
                bytes = Some(changed);
            }
            let bytes = bytes.expect("members");
            let set = SortedSet::read(&bytes).expect("sound");
            let bytes = set.without(1..129).expect("sound").expect("a member");
            assert_eq!(
                SortedSet::read(&bytes).expect("sound").encoding(),
                "skiplist"
            );
        }
        for (len, expected) in [(64, "listpack"), (65, "skiplist")] {
            let bytes = write(vec![Entry {
                member: &vec![b'm'; len],
                score: 0.0,
            }]);
            assert_eq!(SortedSet::read(&bytes).expect("sound").encoding(), expected);
        }
    }

    #[test]
    fn ends_of_lex_ranges() {
        let bytes = write(vec![
            Entry {
                member: b"a",
                score: 0.0,
            },
            Entry {
                member: b"b",
                score: 0.0,
            },
        ]);
        let set = SortedSet::read(&bytes).expect("sound");
        let select = |min, max| set.select(&Selection::all(Members::Lex(LexRange { min, max })));
        assert_eq!(select(LexEnd::BelowAll, LexEnd::AboveAll), 0..2);
        assert_eq!(select(LexEnd::BelowAll, LexEnd::Excluded(b"b")), 0..1);
        assert!(select(LexEnd::AboveAll, LexEnd::AboveAll).is_empty());
        assert!(select(LexEnd::BelowAll, LexEnd::BelowAll).is_empty());
    }
}
