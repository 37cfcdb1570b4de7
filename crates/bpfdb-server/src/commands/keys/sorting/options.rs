//! The arguments of SORT.

use std::ops::Range;

use super::super::super::Failure;
use super::super::super::arguments::{is, number, syntax_error};
use super::pattern::Pattern;

#[derive(Debug)]
pub(super) struct Options<'a> {
    /// What elements are sorted by, if not by themselves.
    pub(super) by: Option<Pattern<'a>>,
    /// BY something that is the same for all elements: they stay in the order of the collection.
    pub(super) stays: bool,
    /// What is replied of each element, if not itself.
    pub(super) gets: Vec<Pattern<'a>>,
    pub(super) is_descending: bool,
    /// As texts.
    pub(super) alpha: bool,
    pub(super) target: Option<&'a [u8]>,
    /// Elements that are passed over.
    offset: i64,
    /// Negative: all.
    count: i64,
}

impl<'a> Options<'a> {
    /// Of the words behind the key.
    pub(super) fn parse(mut words: &'a [Vec<u8>], may_store: bool) -> Result<Self, Failure> {
        let mut options = Self {
            by: None,
            stays: false,
            gets: Vec::new(),
            is_descending: false,
            alpha: false,
            target: None,
            offset: 0,
            count: -1,
        };
        while let Some((word, behind)) = words.split_first() {
            words = options.option(word, behind, may_store)?;
        }
        Ok(options)
    }

    /// Takes an option; what is behind it.
    fn option(
        &mut self,
        word: &[u8],
        behind: &'a [Vec<u8>],
        may_store: bool,
    ) -> Result<&'a [Vec<u8>], Failure> {
        if is(word, "asc") || is(word, "desc") {
            self.is_descending = is(word, "desc");
            return Ok(behind);
        }
        if is(word, "alpha") {
            self.alpha = true;
            return Ok(behind);
        }
        match behind {
            [offset, count, behind @ ..] if is(word, "limit") => {
                (self.offset, self.count) = (number(offset)?, number(count)?);
                Ok(behind)
            }
            [target, behind @ ..] if may_store && is(word, "store") => {
                self.target = Some(target);
                Ok(behind)
            }
            [pattern, behind @ ..] if is(word, "by") => {
                let pattern = Pattern::new(pattern);
                self.stays |= !pattern.has_element();
                self.by = Some(pattern);
                Ok(behind)
            }
            [pattern, behind @ ..] if is(word, "get") => {
                self.gets.push(Pattern::new(pattern));
                Ok(behind)
            }
            _ => Err(syntax_error()),
        }
    }

    /// The places that LIMIT asks for, of so many.
    pub(super) fn range(&self, len: usize) -> Range<usize> {
        let within = |number: i64| usize::try_from(number).unwrap_or(0).min(len);
        let first = within(self.offset);
        let last = if self.count < 0 {
            len
        } else {
            (first + within(self.count)).min(len)
        };
        first..last
    }
}

/// Position of the key that gets the elements, in a request: the last one counts.
pub(in super::super) fn target_of(request: &[Vec<u8>]) -> Option<usize> {
    /// Behind the name and the key.
    const OPTIONS: usize = 2;
    let (mut at, mut target) = (OPTIONS, None);
    while let Some(word) = request.get(at) {
        let arguments = if is(word, "limit") {
            2
        } else {
            usize::from(["by", "get", "store"].iter().any(|option| is(word, option)))
        };
        if is(word, "store") && at + 1 < request.len() {
            target = Some(at + 1);
        }
        at += 1 + arguments;
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<u8>> {
        text.split(' ').map(Into::into).collect()
    }

    #[test]
    fn places_of_a_limit() {
        let range = |limit: &str, len| {
            let words = words(limit);
            Options::parse(&words, false)
                .map(|options| options.range(len))
                .ok()
        };
        for (limit, len, expected) in [
            ("asc", 5, 0..5),
            ("limit 1 2", 5, 1..3),
            ("limit -3 2", 5, 0..2),
            ("limit 4 9223372036854775807", 5, 4..5),
            ("limit 9 1", 5, 5..5),
            ("limit 2 -7", 5, 2..5),
            ("limit 0 0", 5, 0..0),
            ("limit 0 3", 0, 0..0),
        ] {
            assert_eq!(range(limit, len), Some(expected), "{limit}");
        }
        assert_eq!(range("limit 1", 5), None);
        assert_eq!(range("store a", 5), None);
    }

    #[test]
    fn the_target_is_the_last_one_that_is_stored_to() {
        for (request, expected) in [
            ("sort a", None),
            ("sort a store b", Some(3)),
            ("sort a store b store c", Some(5)),
            ("sort a by store get store limit store 1 store b", Some(10)),
            ("sort a get x store", None),
            ("sort a store b store", Some(3)),
        ] {
            assert_eq!(target_of(&words(request)), expected, "{request}");
        }
    }
}
