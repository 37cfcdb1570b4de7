//! Aggregates of a range.

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

impl Aggregate {
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
