//! Edits of a run: a new one is made of parts of the old one and of new entries. What stays is copied
//! once, as bytes.
//!
//! An iterator over entries is a place in the run, too: a part is what lies between two of them.

use std::ops::Range;

use crate::run::{
    self, Entries, HEADER, History, Malformed, NARROW_ENTRY, NARROW_MAX, Run, WIDE_ENTRY,
};

impl<'a> Run<'a> {
    /// Without entries, and without a past.
    pub(crate) fn empty() -> Self {
        Self::with_history(History::default())
    }

    pub(crate) fn with_history(history: History) -> Self {
        Self {
            count: 0,
            history,
            is_wide: false,
            entries: &[],
        }
    }

    /// The entries in these places, which there are. They were looked at: none of them is damaged.
    pub(crate) fn part(&self, places: Range<usize>) -> Result<Entries<'a>, Malformed> {
        let mut start = self.iter();
        start.pass(places.start)?;
        let mut end = start.clone();
        end.pass(places.len())?;
        Ok(start.until(&end))
    }

    /// The parts before these places and behind them.
    fn around(&self, places: Range<usize>) -> Result<[Entries<'a>; 2], Malformed> {
        let mut start = self.iter();
        start.pass(places.start)?;
        let mut end = start.clone();
        end.pass(places.len())?;
        Ok([self.iter().until(&start), end])
    }

    /// The bytes of a run in which new entries have taken these places.
    pub(crate) fn replace<'n>(
        &self,
        places: Range<usize>,
        new: impl Iterator<Item = (&'n [u8], &'n [u8])> + Clone,
    ) -> Result<Vec<u8>, Malformed> {
        let [before, behind] = self.around(places)?;
        let mut writer = Writer::new(self, new.clone());
        writer.keep(before)?;
        new.for_each(|(key, value)| writer.push(key, value));
        writer.keep(behind)?;
        Ok(writer.finish())
    }

    /// The bytes of a run that has only the entries in these places.
    pub(crate) fn keep(&self, places: Range<usize>) -> Result<Vec<u8>, Malformed> {
        let mut writer = Writer::new(self, std::iter::empty());
        writer.keep(self.part(places)?)?;
        Ok(writer.finish())
    }
}

impl<'a> Entries<'a> {
    /// Goes on behind the next `count` entries.
    pub(crate) fn pass(&mut self, count: usize) -> Result<(), Malformed> {
        for _ in 0..count {
            self.next()
                .ok_or(Malformed("fewer entries than it says"))??;
        }
        Ok(())
    }

    /// Those before `end`, which has gone on from here.
    pub(crate) fn until(&self, end: &Self) -> Self {
        Self {
            left: self.left - end.left,
            is_wide: self.is_wide,
            bytes: &self.bytes[..self.bytes.len() - end.bytes.len()],
        }
    }
}

/// Writes a run, part by part.
#[derive(Debug)]
pub(crate) struct Writer {
    run: Vec<u8>,
    count: u32,
    is_wide: bool,
    history: History,
}

impl Writer {
    /// For parts of an old run, and these new entries. A run that is wide stays so.
    pub(crate) fn new<'n>(old: &Run<'_>, new: impl Iterator<Item = (&'n [u8], &'n [u8])>) -> Self {
        let (mut count, mut bytes, mut longest) = (0, 0, 0);
        for (key, value) in new {
            count += 1;
            bytes += key.len() + value.len();
            longest = longest.max(key.len()).max(value.len());
        }
        let is_wide = old.is_wide || longest > NARROW_MAX;
        let header = if is_wide { WIDE_ENTRY } else { NARROW_ENTRY };
        let wider = if is_wide == old.is_wide {
            0
        } else {
            old.len() * (WIDE_ENTRY - NARROW_ENTRY)
        };
        let mut run =
            Vec::with_capacity(HEADER + old.entries.len() + wider + bytes + count * header);
        run.resize(HEADER, 0);
        let mut history = old.history;
        history.longest = history.longest.max(run::number(longest));
        Self {
            run,
            count: 0,
            is_wide,
            history,
        }
    }

    pub(crate) fn keep(&mut self, part: Entries<'_>) -> Result<(), Malformed> {
        if part.is_wide == self.is_wide {
            self.count += part.left;
            self.run.extend_from_slice(part.bytes);
            return Ok(());
        }
        for entry in part {
            let (key, value) = entry?;
            self.push(key, value);
        }
        Ok(())
    }

    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.count += 1;
        run::push_entry(&mut self.run, self.is_wide, key, value);
    }

    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }

    pub(crate) fn history(&mut self) -> &mut History {
        &mut self.history
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let bytes = run::number(self.run.len() - HEADER);
        self.run[0..4].copy_from_slice(&self.count.to_le_bytes());
        self.run[4..8].copy_from_slice(&bytes.to_le_bytes());
        self.run[8..12].copy_from_slice(&self.history.longest.to_le_bytes());
        self.run[12] = run::flags(self.is_wide, self.history);
        self.run
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    type Pair = (Vec<u8>, Vec<u8>);

    fn pairs(entries: &[Pair]) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        entries.iter().map(|(key, value)| (&key[..], &value[..]))
    }

    fn entry() -> impl Strategy<Value = Pair> {
        let text = || prop_oneof![9 => vec(any::<u8>(), 0..9), 1 => vec(any::<u8>(), 250..260)];
        (text(), text())
    }

    proptest! {
        #[test]
        fn an_edit_is_that_of_a_vector(
            entries in vec(entry(), 0..12),
            new in vec(entry(), 0..4),
            places in (0..12_usize, 0..12_usize),
        ) {
            let end = places.1.min(entries.len());
            let places = places.0.min(end)..end;
            let history = History { not_compact: true, ..History::default() };
            let bytes = run::write(pairs(&entries), history);
            let old = Run::parse(&bytes).expect("a run");
            let edited = old.replace(places.clone(), pairs(&new)).expect("sound");
            let kept = old.keep(places.clone()).expect("sound");
            let expected = [&entries[..places.start], &new, &entries[places.end..]].concat();
            for (bytes, expected) in [(&edited, &expected[..]), (&kept, &entries[places])] {
                let run = Run::parse(bytes).expect("a run");
                let read: Vec<_> = run.iter().map(|entry| entry.expect("sound")).collect();
                prop_assert_eq!(read, pairs(expected).collect::<Vec<_>>());
                prop_assert!(run.history().not_compact);
                let longest = expected.iter().map(|(key, value)| key.len().max(value.len())).max();
                prop_assert!(run.history().longest as usize >= longest.unwrap_or(0));
            }
        }
    }
}
