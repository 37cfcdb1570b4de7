//! The children of an inner page, and which of them leads on.

use super::place::Place;
use crate::run::{Entries, Malformed, Run};

/// A child of an inner page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child<'a> {
    pub(super) separator: &'a [u8],
    pub(super) place: Place,
    pub(super) count: u64,
}

impl<'a> Child<'a> {
    fn of((separator, value): (&'a [u8], &'a [u8])) -> Result<Self, Malformed> {
        let words: &[u8; 16] = value.try_into().map_err(|_| BAD_CHILD)?;
        let all = u128::from_le_bytes(*words);
        Ok(Self {
            separator,
            place: Place::from_code(all as u64),
            count: (all >> 64) as u64,
        })
    }

    pub(super) fn value(place: Place, count: u64) -> [u8; 16] {
        (u128::from(count) << 64 | u128::from(place.code())).to_le_bytes()
    }
}

pub(super) const BAD_CHILD: Malformed = Malformed("a child of an inner page");

/// The children of an inner page.
pub(super) fn children<'a>(
    run: &Run<'a>,
) -> impl Iterator<Item = Result<Child<'a>, Malformed>> + use<'a> {
    run.iter().map(|entry| Child::of(entry?))
}

/// What a child is looked for by.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aim<'a> {
    /// The element with this number; its place behind the last is in the last leaf.
    Number(u64),
    /// The element with this order, or the first behind it if there is none.
    Order(&'a [u8]),
}

impl Aim<'_> {
    /// The child to go on with, its number, and how many elements are before it; `None`: there is no child. `before`
    /// are before the page.
    pub(super) fn choose<'a>(
        self,
        run: &Run<'a>,
        index: Option<&Index>,
        before: u64,
    ) -> Result<Option<(usize, Child<'a>, u64)>, Malformed> {
        match index {
            Some(index) => index.choose(self, run, before),
            None => self.choose_by_scan(run, before),
        }
    }

    fn choose_by_scan<'a>(
        self,
        run: &Run<'a>,
        before: u64,
    ) -> Result<Option<(usize, Child<'a>, u64)>, Malformed> {
        let (mut chosen, mut sum) = (None, before);
        for (number, child) in children(run).enumerate() {
            let child = child?;
            match self {
                Self::Order(order) if number > 0 && child.separator > order => break,
                Self::Number(wanted) if number > 0 && sum > wanted => break,
                _ => {}
            }
            // A list's leaf begins with the element of its number.
            chosen = Some((number, child, sum));
            sum += child.count;
        }
        Ok(chosen)
    }
}

/// Where each child of an inner page is, so that one is found without a look at those before it.
#[derive(Debug)]
pub(super) struct Index {
    /// Bytes of the run before its entry, and elements before it.
    children: Box<[(u32, u64)]>,
}

impl Index {
    pub(super) fn of(run: &Run<'_>) -> Result<Self, Malformed> {
        let (mut found, mut before) = (Vec::with_capacity(run.len()), 0_u64);
        let mut entries = run.iter();
        loop {
            let start = run.entries.len() - entries.bytes.len();
            let Some(entry) = entries.next() else {
                break;
            };
            found.push((u32::try_from(start).map_err(|_| BAD_CHILD)?, before));
            before = before
                .checked_add(Child::of(entry?)?.count)
                .ok_or(BAD_CHILD)?;
        }
        Ok(Self {
            children: found.into(),
        })
    }

    /// The child with this number, and those behind it.
    pub(super) fn from<'a>(
        &self,
        number: usize,
        run: &Run<'a>,
    ) -> impl Iterator<Item = Result<Child<'a>, Malformed>> + use<'a> {
        let start = self
            .children
            .get(number)
            .map_or(run.entries.len(), |child| child.0 as usize);
        let entries = Entries {
            left: run.count.saturating_sub(number as u32),
            is_wide: run.is_wide,
            bytes: run.entries.get(start..).unwrap_or_default(),
        };
        entries.map(|entry| Child::of(entry?))
    }

    fn child<'a>(&self, number: usize, run: &Run<'a>) -> Result<Child<'a>, Malformed> {
        self.from(number, run).next().ok_or(BAD_CHILD)?
    }

    fn choose<'a>(
        &self,
        aim: Aim<'_>,
        run: &Run<'a>,
        before: u64,
    ) -> Result<Option<(usize, Child<'a>, u64)>, Malformed> {
        // That of `first` leads on, or one behind it; that of `end` and those behind it do not.
        let (mut first, mut end) = (0, self.children.len());
        if end == 0 {
            return Ok(None);
        }
        while end - first > 1 {
            let middle = first + (end - first) / 2;
            let comes_later = match aim {
                Aim::Number(wanted) => before + self.children[middle].1 > wanted,
                Aim::Order(order) => self.child(middle, run)?.separator > order,
            };
            if comes_later {
                end = middle;
            } else {
                first = middle;
            }
        }
        let sum = before + self.children[first].1;
        Ok(Some((first, self.child(first, run)?, sum)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{History, write};

    /// With an index the same child is chosen as without one.
    #[test]
    fn an_index_chooses_as_a_scan_does() {
        for count in 0..9_u64 {
            let entries: Vec<(Vec<u8>, [u8; 16])> = (0..count)
                .map(|n| {
                    let separator = format!("{:03}", 10 * n).into_bytes();
                    (separator, Child::value(Place::leaf(n), n % 3 + 1))
                })
                .collect();
            let entries = entries.iter().map(|(key, value)| (&key[..], &value[..]));
            let bytes = write(entries, History::default());
            let run = Run::parse(&bytes).expect("a run");
            let index = Index::of(&run).expect("sound");
            let chosen = |aim: Aim<'_>, index: Option<&Index>| {
                let chosen = aim.choose(&run, index, 100).expect("sound");
                chosen.map(|(number, child, sum)| (number, child.place, sum))
            };
            for number in 90..130 {
                let aim = Aim::Number(number);
                assert_eq!(chosen(aim, Some(&index)), chosen(aim, None), "{number}");
            }
            for order in 0..100 {
                let order = format!("{order:03}");
                let aim = Aim::Order(order.as_bytes());
                assert_eq!(chosen(aim, Some(&index)), chosen(aim, None), "{order}");
            }
        }
    }
}
