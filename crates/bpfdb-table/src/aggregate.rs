//! Aggregates of a range.

use crate::bounds::Bounds;
use crate::field::Field;

/// Of the entries of a range, and of a field of theirs if one was named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    pub entries: u64,
    /// Entries that have the field.
    pub fields: u64,
    /// Of these; 0 if there are none.
    pub sum: i128,
    pub least: Option<i128>,
    pub greatest: Option<i128>,
}

/// An aggregate that is computed in slices ([`Source::advance`](crate::Source::advance)): who asks may stop between two, or
/// ask for something else meanwhile.
#[derive(Clone, Debug)]
pub struct Aggregation {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Option<Vec<u8>>,
    pub(crate) field: Option<Field>,
    /// The leaf to go on with; `None`: none was looked at.
    pub(crate) next: Option<u64>,
    so_far: Aggregate,
}

impl Aggregation {
    pub fn new(bounds: &Bounds<'_>, field: Option<Field>) -> Self {
        Self {
            from: bounds.from.to_vec(),
            to: bounds.to.map(<[u8]>::to_vec),
            field,
            next: None,
            so_far: Aggregate::default(),
        }
    }

    pub(crate) fn bounds(&self) -> Bounds<'_> {
        Bounds {
            from: &self.from,
            to: self.to.as_deref(),
        }
    }

    /// A slice has found this, and the next one begins at leaf `next`; the whole, if it was the last one.
    pub(crate) fn note(
        &mut self,
        found: &Aggregate,
        next: u64,
        is_last: bool,
    ) -> Option<Aggregate> {
        self.so_far.join(found);
        self.next = Some(next);
        is_last.then_some(self.so_far)
    }
}

impl Aggregate {
    /// Adds what was found of other entries.
    fn join(&mut self, other: &Self) {
        let of_both =
            |one: Option<i128>, two: Option<i128>, choose: fn(i128, i128) -> i128| match (one, two)
            {
                (Some(one), Some(two)) => Some(choose(one, two)),
                (one, two) => one.or(two),
            };
        self.entries += other.entries;
        self.fields += other.fields;
        self.sum += other.sum;
        self.least = of_both(self.least, other.least, i128::min);
        self.greatest = of_both(self.greatest, other.greatest, i128::max);
    }

    /// Adds an entry, and its field: `None` if none was named, `Some(None)` if the entry has it not.
    pub(crate) fn add(&mut self, field: Option<Option<i128>>) {
        self.entries += 1;
        let Some(number) = field.flatten() else {
            return;
        };
        self.fields += 1;
        self.sum += number;
        self.least = Some(self.least.map_or(number, |least| least.min(number)));
        self.greatest = Some(
            self.greatest
                .map_or(number, |greatest| greatest.max(number)),
        );
    }
}
