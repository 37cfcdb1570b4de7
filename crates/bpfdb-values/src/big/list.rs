//! Lists: a tree without table.

use std::ops::Range;

use super::Big;
use super::children::Aim;
use super::page::Pages;
use crate::list::End;
use crate::run::Malformed;

impl<P: Pages> Big<P> {
    /// Pushes one element of a list after the other: at the head the last one comes first.
    ///
    /// # Errors
    /// Those of the pages, as of all that follow.
    pub fn push<E: AsRef<[u8]>>(&mut self, end: End, elements: &[E]) -> Result<(), P::Error> {
        let mut entries: Vec<(&[u8], &[u8])> = elements
            .iter()
            .map(|element| (element.as_ref(), &[][..]))
            .collect();
        let number = match end {
            End::Head => {
                entries.reverse();
                0
            }
            End::Tail => self.head.elements,
        };
        self.insert_entries(number, &entries)
    }

    /// Puts an element before the one with this number, or behind the last.
    pub fn insert_at(&mut self, number: u64, element: &[u8]) -> Result<(), P::Error> {
        self.insert_entries(number, &[(element, &[])])
    }

    fn insert_entries(&mut self, number: u64, entries: &[(&[u8], &[u8])]) -> Result<(), P::Error> {
        match self.path(Aim::Number(number))? {
            Some(path) => {
                let place = (number - path.before) as usize;
                self.edit(&path, place..place, entries)?;
            }
            None => self.plant(entries)?,
        }
        for (element, _) in entries {
            self.count((1, element.len()), (0, 0));
            self.note(element, &[]);
        }
        Ok(())
    }

    /// Gives the place with this number, which there is, another element.
    pub fn replace(&mut self, number: u64, element: &[u8]) -> Result<(), P::Error> {
        let path = self.path(Aim::Number(number))?.ok_or(NO_ELEMENT)?;
        let place = (number - path.before) as usize;
        let old = self.leaf(&path)?.iter().nth(place).ok_or(NO_ELEMENT)??;
        let gone = old.0.len();
        self.edit(&path, place..place + 1, &[(element, &[])])?;
        self.count((1, element.len()), (1, gone));
        self.note(element, &[]);
        Ok(())
    }

    /// Removes the elements of a list with these numbers, which there are: their bytes, as those of a list.
    pub fn take(&mut self, numbers: Range<u64>) -> Result<Vec<u8>, P::Error> {
        let taken = self.elements(numbers.clone())?;
        let bytes = contents(&taken)?;
        self.cut(numbers.clone())?;
        self.count((0, 0), (numbers.end - numbers.start, bytes));
        Ok(taken)
    }

    /// All elements go. The pages are left to the code that removes the rest: there will be no head.
    pub fn clear(&mut self) -> Result<(), P::Error> {
        self.head.elements = 0;
        self.cache
            .put(super::Place::ROOT, super::table::EMPTY.to_vec());
        Ok(())
    }
}

/// Bytes of all keys and values of a run.
pub(super) fn contents(run: &[u8]) -> Result<usize, Malformed> {
    let run = crate::run::Run::parse(run)?;
    run.iter().try_fold(0, |sum, entry| {
        let (key, value) = entry?;
        Ok(sum + key.len() + value.len())
    })
}

const NO_ELEMENT: Malformed = Malformed("an element of a large list is missing");
