//! A large stream beside a short one: the same changes have the same outcome.

use proptest::collection::vec;

use super::*;
use crate::stream::blocks::{Blocks, Inline};
use crate::stream::groups::Group;
use crate::stream::tests::{Step, step};
use crate::stream::{Id, Keep, KeptGroups, Stream, Trim, value};

type Long = Stream<'static, super::super::stream::Paged<Memory>>;

impl Memory {
    fn build_stream(&self, bytes: &[u8]) -> Head {
        super::super::stream::build(bytes, 7, self.clone()).expect("built")
    }

    fn open_stream(&self, head: &Head) -> Long {
        Stream::open(Big::open(Shape::Stream, head.clone(), self.clone())).expect("a stream")
    }

    /// Invariants 3 to 5, and no page that nothing leads to.
    fn check_stream(&self, head: &Head) {
        let mut big = Big::open(Shape::Stream, head.clone(), self.clone());
        let (count, pages) = check_tree(&mut big, Place::ROOT, &[]);
        assert_eq!(count, head.elements);
        let groups = head.stream.expect("of a stream").groups_len;
        let pages = pages + usize::from(groups > 0);
        assert_eq!(self.0.borrow().len(), pages);
        let whole = big.whole().expect("sound");
        assert_eq!(whole.len() as u64, big.whole_len());
    }
}

/// The identifier that a new entry gets.
fn new_id(last: Id, gap: u64) -> Id {
    Id::new(last.ms + gap, if gap == 0 { last.seq + 1 } else { 0 })
}

/// An identifier among those of the stream, or beside one.
fn some_id<B: Blocks>(stream: &Stream<'_, B>, at: prop::sample::Index) -> Id {
    Id::new(at.index(stream.state.last.ms as usize + 2) as u64, 0)
}

/// Does to a stream what the step says; what came of it.
fn apply<B: Blocks>(stream: &mut Stream<'_, B>, step: &Step) -> u64
where
    B::Error: std::fmt::Debug,
{
    let trimmed = |stream: &mut Stream<'_, B>, keep, is_exact: bool| {
        let trim = Trim {
            keep,
            is_approximate: !is_exact,
            limit: 0,
        };
        stream.trim(&trim).expect("sound")
    };
    match step {
        Step::Add(gap, words) => {
            let id = new_id(stream.state.last, *gap);
            stream.append(id, words).expect("sound");
            0
        }
        Step::Delete(at) => {
            let id = some_id(stream, *at);
            u64::from(stream.delete(id).expect("sound"))
        }
        Step::Trim(keep, is_exact) => trimmed(stream, Keep::Entries(*keep), *is_exact),
        Step::TrimFrom(at, is_exact) => {
            let keep = Keep::From(some_id(stream, *at));
            trimmed(stream, keep, *is_exact)
        }
        Step::SetBack => {
            let last = stream.last_entry().expect("sound").unwrap_or_default();
            stream.set_last(last).expect("sound");
            0
        }
        Step::Write => 0,
    }
}

/// Identifiers in a range, both ways.
fn ids<B: Blocks>(stream: &mut Stream<'_, B>, first: Id, last: Id) -> [Vec<Id>; 2]
where
    B::Error: std::fmt::Debug,
{
    [false, true].map(|is_reversed| {
        let mut found = Vec::new();
        let range = stream.range(first..=last, is_reversed, |entry| {
            found.push(entry.id);
            Ok(true)
        });
        range.expect("sound");
        found
    })
}

/// Adds a group, or removes one.
fn change_groups<B: Blocks>(stream: &mut Stream<'_, B>, number: usize)
where
    B::Error: std::fmt::Debug,
{
    let last = stream.state.last;
    let groups = stream.groups().expect("sound");
    let name = format!("group {}", number % 5).into_bytes();
    if groups.remove(&name).is_none() {
        let mut group = Group::new(last, Some(number as u64));
        group.see(b"consumer", 5);
        group.deliver(last, b"consumer", 6, 1);
        groups.insert(name, group);
    }
}

proptest! {
    #[test]
    fn a_long_stream_does_as_a_short_one(
        before in vec(step(), 0..80),
        steps in vec((step(), any::<prop::sample::Index>()), 1..120),
    ) {
        let mut short: Stream<'_, Inline<'_>> = Stream::default();
        before.iter().for_each(|step| { apply(&mut short, step); });
        let memory = Memory::default();
        let mut head = memory.build_stream(&value::write(&short));
        memory.check_stream(&head);
        let mut long = memory.open_stream(&head);
        for (number, (step, at)) in steps.iter().enumerate() {
            prop_assert_eq!(apply(&mut long, step), apply(&mut short, step));
            prop_assert_eq!(long.state, short.state);
            let (first, last) = (some_id(&short, *at), short.state.last);
            prop_assert_eq!(ids(&mut long, first, last), ids(&mut short, first, last));
            prop_assert_eq!(ids(&mut long, Id::MIN, first), ids(&mut short, Id::MIN, first));
            prop_assert_eq!(long.blocks.ids(), short.blocks.ids());
            if matches!(step, Step::Delete(_)) {
                change_groups(&mut long, number);
                change_groups(&mut short, number);
            }
            if matches!(step, Step::Write) {
                head = long.settle().expect("sound").finish().expect("written");
                memory.check_stream(&head);
                long = memory.open_stream(&head);
                prop_assert!(matches!(long.groups, KeptGroups::Stored));
                prop_assert_eq!(long.groups().expect("sound"), short.groups().expect("sound"));
            }
        }
        let mut long = long.settle().expect("sound");
        let expected = value::write(&short);
        prop_assert_eq!(long.whole_len() as usize, expected.len());
        prop_assert_eq!(long.whole().expect("sound"), expected.clone());
        prop_assert_eq!(value::check(&expected), Ok(()));
        long.finish().expect("written");
        memory.remove_all(3);
    }
}

/// An entry that is added changes the last leaf and nothing else, if its block has room.
#[test]
fn an_entry_that_is_added_changes_one_page() {
    let mut short: Stream<'_, Inline<'_>> = Stream::default();
    for number in 1..2000 {
        short
            .append(Id::new(number, 0), &[&b"field"[..], b"a value"])
            .expect("sound");
    }
    let memory = Memory::default();
    let mut head = memory.build_stream(&value::write(&short));
    assert!(memory.0.borrow().len() > 20);
    let mut changes = Vec::new();
    for number in 2000..2050 {
        let before = memory.0.borrow().clone();
        let mut long = memory.open_stream(&head);
        long.append(Id::new(number, 0), &[&b"field"[..], b"a value"])
            .expect("sound");
        head = long.settle().expect("sound").finish().expect("written");
        let after = memory.0.borrow().clone();
        let changed = after
            .iter()
            .filter(|(key, page)| before.get(key) != Some(page));
        changes.push(changed.count());
    }
    // A block has 100 entries, and the one after it is a page that its parent has to name.
    let more = changes.iter().filter(|&&count| count != 1).count();
    assert!(more <= 1, "{changes:?}");
}
