//! What elements are sorted by: numbers or texts, their own or those that a pattern reads. Equal ones stay in
//! the order that they had.

use std::cmp;

use bpfdb::Session;
use bpfdb_values::double;

use super::super::super::Failure;
use super::super::super::time_slice::TimeSlice;
use super::options::Options;

/// Bytes of the texts that elements are sorted by, all together.
const TEXTS_MAX: usize = 1 << 30;
/// Elements that are sorted between two looks at the clock.
const SORTED: usize = 1024;

/// Where an element is in the bytes of its collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    start: u32,
    len: u32,
}

impl Place {
    /// Of a part of these bytes, fewer than 4 GiB.
    pub(super) fn of(text: &[u8], bytes: &[u8]) -> Self {
        Self {
            start: (text.as_ptr().addr() - bytes.as_ptr().addr()) as u32,
            len: text.len() as u32,
        }
    }

    pub(super) fn text(self, bytes: &[u8]) -> &[u8] {
        let start = self.start as usize;
        &bytes[start..start + self.len as usize]
    }
}

/// What an element is sorted by.
#[derive(Debug)]
enum Key {
    Own,
    Number(f64),
    Text(Option<Box<[u8]>>),
}

/// An element behind what it is sorted by.
#[derive(Debug)]
pub(super) struct Keyed {
    key: Key,
    element: Place,
}

impl Keyed {
    /// By its own text.
    pub(super) fn alone(element: Place) -> Self {
        let key = Key::Own;
        Self { key, element }
    }

    /// No two elements are equal: each has a place.
    fn order(&self, other: &Self, bytes: &[u8], is_descending: bool) -> cmp::Ordering {
        let (text, others) = (self.element.text(bytes), other.element.text(bytes));
        let order = match (&self.key, &other.key) {
            (Key::Number(one), Key::Number(other)) => {
                let order = one.partial_cmp(other).unwrap_or(cmp::Ordering::Equal);
                // Elements of one number are in the order of their texts.
                order.then_with(|| text.cmp(others))
            }
            // What has no text comes first.
            (Key::Text(one), Key::Text(other)) => one.cmp(other),
            _ => text.cmp(others),
        };
        let order = if is_descending {
            order.reverse()
        } else {
            order
        };
        order.then(self.element.start.cmp(&other.element.start))
    }
}

/// Elements whose keys are read.
#[derive(Debug)]
pub(super) struct Keys {
    left: std::vec::IntoIter<Place>,
    pub(super) keyed: Vec<Keyed>,
    /// Of texts that were read.
    bytes: usize,
    are_numbers: bool,
}

impl Keys {
    pub(super) fn new(elements: Vec<Place>) -> Self {
        Self {
            keyed: Vec::with_capacity(elements.len()),
            left: elements.into_iter(),
            bytes: 0,
            are_numbers: true,
        }
    }

    /// Reads keys until the slice is over; true: all are read.
    pub(super) fn read(
        &mut self,
        session: &mut Session,
        bytes: &[u8],
        options: &Options<'_>,
        slice: TimeSlice,
    ) -> Result<bool, Failure> {
        while !self.left.as_slice().is_empty() {
            if slice.is_over() {
                return Ok(false);
            }
            for element in self.left.by_ref().take(READ) {
                let text = element.text(bytes);
                let read = match &options.by {
                    None => Some(text.into()),
                    Some(by) => by.read(session, text)?,
                };
                let key = if !options.alpha {
                    // What has no number is sorted as 0.
                    let number = read.map_or(Some(0.0), |text| number(&text));
                    self.are_numbers &= number.is_some();
                    Key::Number(number.unwrap_or_default())
                } else if options.by.is_none() {
                    Key::Own
                } else {
                    self.bytes += read.as_ref().map_or(0, |text| text.len());
                    Key::Text(read.map(|text| text.into_owned().into()))
                };
                self.keyed.push(Keyed { key, element });
            }
            if self.bytes > TEXTS_MAX {
                return Err("ERR the values to sort by are longer than 1 GiB together".into());
            }
        }
        match self.are_numbers {
            true => Ok(true),
            false => Err("ERR One or more scores can't be converted into double".into()),
        }
    }

    pub(super) fn memory(&self) -> usize {
        size_of_val(self.left.as_slice()) + size_of::<Keyed>() * self.keyed.capacity() + self.bytes
    }
}

/// Keys that are read between two looks at the clock.
const READ: usize = 16;

/// Elements that are brought into order: runs of some are sorted, then merged two by two.
#[derive(Debug)]
pub(super) struct Ordering {
    unsorted: std::vec::IntoIter<Keyed>,
    runs: std::collections::VecDeque<Vec<Keyed>>,
    merging: Option<Merging>,
}

#[derive(Debug)]
struct Merging {
    one: std::vec::IntoIter<Keyed>,
    other: std::vec::IntoIter<Keyed>,
    merged: Vec<Keyed>,
}

impl Ordering {
    pub(super) fn new(keyed: Vec<Keyed>) -> Self {
        Self {
            unsorted: keyed.into_iter(),
            runs: std::collections::VecDeque::new(),
            merging: None,
        }
    }

    /// Goes on until the slice is over; `Some`: all elements in their order.
    pub(super) fn advance(
        &mut self,
        bytes: &[u8],
        is_descending: bool,
        slice: TimeSlice,
    ) -> Option<Vec<Place>> {
        let order = |one: &Keyed, other: &Keyed| one.order(other, bytes, is_descending);
        loop {
            if let Some(merging) = &mut self.merging {
                if merging.advance(order) {
                    let merged = self.merging.take().map(|merging| merging.merged);
                    self.runs.extend(merged);
                }
            } else if !self.unsorted.as_slice().is_empty() {
                let mut run: Vec<Keyed> = self.unsorted.by_ref().take(SORTED).collect();
                run.sort_unstable_by(order);
                self.runs.push_back(run);
            } else if self.runs.len() > 1 {
                let (one, other) = (self.runs.pop_front(), self.runs.pop_front());
                self.merging = one.zip(other).map(|(one, other)| Merging {
                    merged: Vec::with_capacity(one.len() + other.len()),
                    one: one.into_iter(),
                    other: other.into_iter(),
                });
            } else {
                let all = self.runs.pop_front().unwrap_or_default();
                return Some(all.into_iter().map(|keyed| keyed.element).collect());
            }
            if slice.is_over() {
                return None;
            }
        }
    }

    /// Without the texts, which were counted before they were here: they are as many.
    pub(super) fn memory(&self) -> usize {
        let runs: usize = self.runs.iter().map(Vec::len).sum();
        let merging = self.merging.as_ref();
        let merging = merging.map_or(0, |merging| {
            merging.one.len() + merging.other.len() + merging.merged.capacity()
        });
        (self.unsorted.len() + runs + merging) * size_of::<Keyed>()
    }
}

impl Merging {
    /// Merges some; true: all are merged.
    fn advance(&mut self, order: impl Fn(&Keyed, &Keyed) -> cmp::Ordering) -> bool {
        for _ in 0..SORTED {
            let (one, other) = (self.one.as_slice().first(), self.other.as_slice().first());
            let next = match (one, other) {
                (Some(one), Some(other)) if order(one, other).is_gt() => self.other.next(),
                (Some(_), _) => self.one.next(),
                (None, _) => self.other.next(),
            };
            let Some(next) = next else {
                return true;
            };
            self.merged.push(next);
        }
        false
    }
}

/// What C's `strtod` makes of all of a text, which ends at a zero; an empty one is 0.
fn number(text: &[u8]) -> Option<f64> {
    let end = text.iter().position(|&byte| byte == 0);
    let read = double::prefix(&text[..end.unwrap_or(text.len())]);
    let is_out_of_range = read.is_out_of_range || read.value.is_subnormal();
    let is_number = read.rest.is_empty() && !is_out_of_range && !read.value.is_nan();
    is_number.then_some(read.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of some elements that are the digits of numbers, in the order in which they come back.
    fn ordered(numbers: &[u32], key: fn(u32) -> Key, is_descending: bool) -> Vec<u32> {
        let mut bytes = Vec::new();
        let keyed = numbers.iter().map(|&number| {
            let start = bytes.len() as u32;
            bytes.extend_from_slice(&number.to_be_bytes());
            let element = Place { start, len: 4 };
            let key = key(number);
            Keyed { key, element }
        });
        let mut ordering = Ordering::new(keyed.collect());
        let elements = loop {
            if let Some(all) = ordering.advance(&bytes, is_descending, TimeSlice::begin()) {
                break all;
            }
        };
        let text = |element: Place| element.text(&bytes).try_into().expect("four bytes");
        let numbers = elements.into_iter().map(text);
        numbers.map(u32::from_be_bytes).collect()
    }

    #[test]
    fn runs_are_merged_to_one_order() {
        for count in [0, 1, 2, SORTED, SORTED + 1, 7 * SORTED + 5] {
            let numbers: Vec<u32> = (0..count as u32)
                .map(|number| number.wrapping_mul(0x9e37_79b9) >> 8)
                .collect();
            let mut expected = numbers.clone();
            expected.sort();
            let found = ordered(&numbers, |number| Key::Number(number.into()), false);
            assert_eq!(found, expected);
            assert_eq!(ordered(&numbers, |_| Key::Own, false), expected);
            expected.reverse();
            assert_eq!(ordered(&numbers, |_| Key::Own, true), expected);
        }
    }

    #[test]
    fn equal_ones_stay_in_their_order() {
        let numbers: Vec<u32> = (0..5000).rev().collect();
        let by_text = |number: u32| Key::Text((!number.is_multiple_of(2)).then(|| b"x"[..].into()));
        for is_descending in [false, true] {
            let (mut first, second): (Vec<u32>, Vec<u32>) =
                (numbers.iter()).partition(|&number| number.is_multiple_of(2) != is_descending);
            first.extend(second);
            assert_eq!(ordered(&numbers, by_text, is_descending), first);
        }
    }

    #[test]
    fn numbers_are_those_of_strtod() {
        for (text, expected) in [
            (&b"1.5"[..], Some(1.5)),
            (b"", Some(0.0)),
            (b" 7", Some(7.0)),
            (b"0x10", Some(16.0)),
            (b"-inf", Some(f64::NEG_INFINITY)),
            (b"3\0x", Some(3.0)),
            (b"7 ", None),
            (b" ", None),
            (b"a", None),
            (b"nan", None),
            (b"1e400", None),
            (b"1e-310", None),
        ] {
            assert_eq!(number(text), expected, "{text:?}");
        }
    }
}
