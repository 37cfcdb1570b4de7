//! Lists: a run whose keys are the elements, in their order.
//!
//! What looks at a list reads the run, and what changes one makes a new run of parts of the old one:
//! elements are not taken apart.

use std::ops::Range;

use crate::edit::Writer;
use crate::places;
use crate::run::{Entries, Malformed, Run};

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Head,
    Tail,
}

/// On which side of another element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Before,
    Behind,
}

/// A list as it is read: it borrows the bytes.
#[derive(Clone, Copy, Debug)]
pub struct List<'a> {
    run: Run<'a>,
}

/// Some elements, one behind the other.
#[derive(Clone, Debug)]
pub struct Elements<'a>(Entries<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.left == 0 {
            return None;
        }
        self.0.next()?.ok().map(|(element, _)| element)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.0.left as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Elements<'_> {}

/// What [`List::position`] looks for.
#[derive(Clone, Copy, Debug)]
pub struct Search<'e> {
    pub element: &'e [u8],
    /// From which end.
    pub from: End,
    /// Matches that are passed over.
    pub skip: usize,
    /// Elements that are compared at most; `None`: all.
    pub compared: Option<usize>,
}

impl<'a> List<'a> {
    /// # Errors
    /// Bytes that are no run.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Ok(Self {
            run: Run::parse(bytes)?,
        })
    }

    /// The list of a key that is absent.
    pub fn empty() -> Self {
        Self { run: Run::empty() }
    }

    pub fn len(&self) -> usize {
        self.run.len()
    }

    pub fn is_empty(&self) -> bool {
        self.run.is_empty()
    }

    /// As OBJECT ENCODING of Redis 7.0 names it.
    pub fn encoding(&self) -> &'static str {
        "quicklist"
    }

    /// The element with this number; those from the end are negative.
    ///
    /// # Errors
    /// A damaged entry before it, as in all that follow.
    pub fn get(&self, index: i64) -> Result<Option<&'a [u8]>, Malformed> {
        let Some(place) = places::place(index, self.len()) else {
            return Ok(None);
        };
        Ok(self.elements(place..place + 1)?.next())
    }

    /// The elements in these places, which there are.
    pub fn elements(&self, places: Range<usize>) -> Result<Elements<'a>, Malformed> {
        self.run.part(places).map(Elements)
    }

    /// The bytes of the list after a push of one element after the other: at the head the last one
    /// comes first.
    pub fn push<E: AsRef<[u8]>>(&self, end: End, elements: &[E]) -> Result<Vec<u8>, Malformed> {
        match end {
            End::Head => self.run.replace(0..0, entries(elements.iter().rev())),
            End::Tail => {
                let len = self.len();
                self.run.replace(len..len, entries(elements.iter()))
            }
        }
    }

    /// The places of so many elements at an end, or of all.
    pub fn places_at(&self, end: End, count: usize) -> Range<usize> {
        let len = self.len();
        let count = count.min(len);
        match end {
            End::Head => 0..count,
            End::Tail => len - count..len,
        }
    }

    /// The bytes of the list without the elements in these places; `None`: it has no other.
    pub fn without(&self, places: Range<usize>) -> Result<Option<Vec<u8>>, Malformed> {
        if places.len() == self.len() {
            return Ok(None);
        }
        self.run.replace(places, std::iter::empty()).map(Some)
    }

    /// The bytes of the list with only the elements in these places; `None`: there are none.
    pub fn trimmed(&self, places: Range<usize>) -> Result<Option<Vec<u8>>, Malformed> {
        if places.is_empty() {
            return Ok(None);
        }
        self.run.keep(places).map(Some)
    }

    /// The bytes of the list with another element in the place of this number; `None`: there is no
    /// such place.
    pub fn set(&self, index: i64, element: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
        let Some(place) = places::place(index, self.len()) else {
            return Ok(None);
        };
        let new = [element];
        self.run
            .replace(place..place + 1, entries(new.iter()))
            .map(Some)
    }

    /// The bytes of the list with an element beside the first that is `pivot`; `None`: there is none.
    pub fn insert(
        &self,
        side: Side,
        pivot: &[u8],
        element: &[u8],
    ) -> Result<Option<Vec<u8>>, Malformed> {
        let mut all = self.elements(0..self.len())?;
        let Some(place) = all.position(|other| other == pivot) else {
            return Ok(None);
        };
        let place = match side {
            Side::Before => place,
            Side::Behind => place + 1,
        };
        let new = [element];
        self.run
            .replace(place..place, entries(new.iter()))
            .map(Some)
    }

    /// The bytes of the list with an element of one end moved to an end; it has one.
    pub fn rotated(&self, from: End, to: End) -> Result<Vec<u8>, Malformed> {
        let taken = self.places_at(from, 1);
        let kept = match from {
            End::Head => taken.end..self.len(),
            End::Tail => 0..taken.start,
        };
        let (taken, kept) = (self.run.part(taken)?, self.run.part(kept)?);
        let mut writer = Writer::new(&self.run, std::iter::empty());
        let parts = match to {
            End::Head => [taken, kept],
            End::Tail => [kept, taken],
        };
        for part in parts {
            writer.keep(part)?;
        }
        Ok(writer.finish())
    }

    /// The list without some that are this element, at most `count` seen from that end: how many were
    /// removed, and the bytes of what is left, if anything is.
    pub fn removed(
        &self,
        element: &[u8],
        from: End,
        count: usize,
    ) -> Result<(usize, Option<Vec<u8>>), Malformed> {
        let all = self.elements(0..self.len())?;
        let matches = all.filter(|&other| other == element).count();
        let removed = matches.min(count);
        if removed == self.len() {
            return Ok((removed, None));
        }
        let first = match from {
            End::Head => 0,
            End::Tail => matches - removed,
        };
        let going = first..first + removed;
        let mut writer = Writer::new(&self.run, std::iter::empty());
        let (mut entries, mut kept, mut seen) = (self.run.iter(), self.run.iter(), 0);
        // Between two that are removed the bytes are copied as they are.
        while seen < going.end {
            let here = entries.clone();
            let Some(entry) = entries.next() else { break };
            if entry?.0 == element {
                if going.contains(&seen) {
                    writer.keep(kept.until(&here))?;
                    kept = entries.clone();
                }
                seen += 1;
            }
        }
        writer.keep(kept)?;
        Ok((removed, Some(writer.finish())))
    }

    /// The places of an element, in the order in which they are found.
    pub fn positions(&self, search: Search<'_>) -> Result<Vec<usize>, Malformed> {
        let len = self.len();
        let compared = search.compared.unwrap_or(len);
        let places = self.places_at(search.from, compared);
        let first = places.start;
        let elements = self.elements(places)?;
        let is_it =
            |(place, element): (usize, &[u8])| (element == search.element).then_some(first + place);
        let mut found: Vec<usize> = elements.enumerate().filter_map(is_it).collect();
        if search.from == End::Tail {
            found.reverse();
        }
        found.drain(..search.skip.min(found.len()));
        Ok(found)
    }
}

/// Elements as entries of a run.
fn entries<'n, E: AsRef<[u8]> + 'n>(
    elements: impl Iterator<Item = &'n E> + Clone,
) -> impl Iterator<Item = (&'n [u8], &'n [u8])> + Clone {
    elements.map(|element| (element.as_ref(), &[][..]))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    type Model = VecDeque<Vec<u8>>;

    fn element() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            8 => "[a-c]{0,2}".prop_map(String::into_bytes),
            1 => vec(any::<u8>(), 254..258),
        ]
    }

    fn end() -> impl Strategy<Value = End> {
        prop_oneof![Just(End::Head), Just(End::Tail)]
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(End, Vec<Vec<u8>>),
        Pop(End, usize),
        Set(i64, Vec<u8>),
        Insert(bool, Vec<u8>, Vec<u8>),
        Remove(End, usize, Vec<u8>),
        Trim(i64, i64),
        Rotate(End, End),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (end(), vec(element(), 1..4)).prop_map(|(end, all)| Step::Push(end, all)),
            2 => (end(), 0..3_usize).prop_map(|(end, count)| Step::Pop(end, count)),
            1 => (-9..9_i64, element()).prop_map(|(index, new)| Step::Set(index, new)),
            1 => (any::<bool>(), element(), element())
                .prop_map(|(before, pivot, new)| Step::Insert(before, pivot, new)),
            1 => (end(), 0..4_usize, element()).prop_map(|(end, count, old)| Step::Remove(end, count, old)),
            1 => (-9..9_i64, -9..9_i64).prop_map(|(first, last)| Step::Trim(first, last)),
            1 => (end(), end()).prop_map(|(from, to)| Step::Rotate(from, to)),
        ]
    }

    /// The list of these bytes; no bytes, no elements.
    fn list(bytes: Option<&Vec<u8>>) -> List<'_> {
        bytes.map_or_else(List::empty, |bytes| List::parse(bytes).expect("a list"))
    }

    /// What the step makes of the bytes.
    fn done(list: List<'_>, step: &Step) -> Option<Option<Vec<u8>>> {
        let changed = match step {
            Step::Push(end, new) => Some(list.push(*end, new).expect("sound")),
            Step::Pop(end, count) => list.without(list.places_at(*end, *count)).expect("sound"),
            Step::Set(index, new) => return list.set(*index, new).expect("sound").map(Some),
            Step::Insert(before, pivot, new) => {
                let side = if *before { Side::Before } else { Side::Behind };
                return list.insert(side, pivot, new).expect("sound").map(Some);
            }
            Step::Remove(end, count, old) => list.removed(old, *end, *count).expect("sound").1,
            Step::Trim(first, last) => list
                .trimmed(places::range(*first, *last, list.len()))
                .expect("sound"),
            Step::Rotate(..) if list.is_empty() => return None,
            Step::Rotate(from, to) => Some(list.rotated(*from, *to).expect("sound")),
        };
        Some(changed)
    }

    fn push(model: &mut Model, end: End, element: Vec<u8>) {
        match end {
            End::Head => model.push_front(element),
            End::Tail => model.push_back(element),
        }
    }

    fn pop(model: &mut Model, end: End) -> Option<Vec<u8>> {
        match end {
            End::Head => model.pop_front(),
            End::Tail => model.pop_back(),
        }
    }

    fn apply(model: &mut Model, step: &Step) {
        match step {
            Step::Push(end, new) => new.iter().for_each(|new| push(model, *end, new.clone())),
            Step::Pop(end, count) => (0..*count).for_each(|_| drop(pop(model, *end))),
            Step::Set(index, new) => {
                if let Some(place) = places::place(*index, model.len()) {
                    model[place].clone_from(new);
                }
            }
            Step::Insert(before, pivot, new) => {
                if let Some(place) = model.iter().position(|other| other == pivot) {
                    model.insert(place + usize::from(!before), new.clone());
                }
            }
            Step::Remove(end, count, old) => {
                for _ in 0..*count {
                    let place = match end {
                        End::Head => model.iter().position(|other| other == old),
                        End::Tail => model.iter().rposition(|other| other == old),
                    };
                    place.map(|place| model.remove(place));
                }
            }
            Step::Trim(first, last) => {
                let places = places::range(*first, *last, model.len());
                *model = model.drain(places).collect();
            }
            Step::Rotate(from, to) => {
                if let Some(element) = pop(model, *from) {
                    push(model, *to, element);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_list_is_a_deque(steps in vec(step(), 1..40)) {
            let mut model = Model::new();
            let mut bytes: Option<Vec<u8>> = None;
            for step in &steps {
                apply(&mut model, step);
                let changed = done(list(bytes.as_ref()), step);
                if let Some(changed) = changed {
                    bytes = changed.filter(|bytes| !list(Some(bytes)).is_empty());
                }
                let list = list(bytes.as_ref());
                prop_assert_eq!(list.len(), model.len());
                let all = list.elements(0..list.len()).expect("sound");
                prop_assert!(all.eq(model.iter().map(|element| &element[..])), "{step:?}");
                for index in [-2, -1, 0, 1] {
                    let place = places::place(index, model.len());
                    let expected = place.map(|place| &model[place][..]);
                    prop_assert_eq!(list.get(index).expect("sound"), expected);
                }
            }
        }

        #[test]
        fn positions_are_those_of_the_elements(
            all in vec("[ab]", 0..12),
            from in end(),
            skip in 0..4_usize,
            compared in proptest::option::of(0..14_usize),
        ) {
            let bytes = List::empty().push(End::Tail, &all).expect("sound");
            let list = List::parse(&bytes).expect("a list");
            let search = Search { element: b"a", from, skip, compared };
            let mut numbered: Vec<(usize, &String)> = all.iter().enumerate().collect();
            if from == End::Tail {
                numbered.reverse();
            }
            numbered.truncate(compared.unwrap_or(usize::MAX));
            let expected: Vec<usize> = (numbered.into_iter())
                .filter(|(_, element)| *element == "a")
                .map(|(place, _)| place)
                .skip(skip)
                .collect();
            prop_assert_eq!(list.positions(search).expect("sound"), expected);
        }

        #[test]
        fn damaged_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..99), count in 0..5_u32, wide: bool) {
            let mut bytes = bytes;
            if let Some(entries) = bytes.len().checked_sub(crate::run::HEADER) {
                bytes[0..4].copy_from_slice(&count.to_le_bytes());
                bytes[4..8].copy_from_slice(&(entries as u32).to_le_bytes());
                bytes[12..16].copy_from_slice(&[wide.into(), 0, 0, 0]);
            }
            if let Ok(list) = List::parse(&bytes) {
                for end in [End::Head, End::Tail] {
                    let _ = list.push(end, &[b"a"]);
                    let _ = list.without(list.places_at(end, 1));
                    let _ = list.removed(b"", end, 1);
                }
                let _ = list.get(-1);
                let _ = list.insert(Side::Before, b"", b"");
            }
        }
    }
}
