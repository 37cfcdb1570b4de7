//! Places of elements that are in an order, as Redis's commands count them: from 0, and from -1 at the
//! end.

use std::ops::Range;

/// The place with this number; `None` if there is none.
pub fn place(index: i64, len: usize) -> Option<usize> {
    let place = if index < 0 {
        len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
    } else {
        usize::try_from(index).ok()?
    };
    (place < len).then_some(place)
}

/// The places from the first to the last, both included. Those before the first and behind the last
/// element are left out.
pub fn range(first: i64, last: i64, len: usize) -> Range<usize> {
    let from_start = |index: i64| {
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        if index < 0 { index + len } else { index }
    };
    let first = usize::try_from(from_start(first)).unwrap_or(0);
    let end = usize::try_from(from_start(last)).map_or(0, |last| last.saturating_add(1).min(len));
    if first < end { first..end } else { 0..0 }
}

/// The same places, counted from the other end.
pub fn mirrored(places: &Range<usize>, len: usize) -> Range<usize> {
    len - places.end..len - places.start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place() {
        for (index, expected) in [
            (0, Some(0)),
            (2, Some(2)),
            (3, None),
            (-1, Some(2)),
            (-3, Some(0)),
            (-4, None),
            (i64::MIN, None),
            (i64::MAX, None),
        ] {
            assert_eq!(place(index, 3), expected, "{index}");
        }
        assert_eq!(place(0, 0), None);
        assert_eq!(place(-1, 0), None);
    }

    #[test]
    fn ranges_of_places() {
        for (first, last, expected) in [
            (0, -1, 0..5),
            (1, 3, 1..4),
            (-2, -1, 3..5),
            (-100, 100, 0..5),
            (3, 2, 0..0),
            (5, 9, 0..0),
            (0, -6, 0..0),
            (i64::MIN, i64::MAX, 0..5),
            (i64::MAX, i64::MIN, 0..0),
        ] {
            assert_eq!(range(first, last, 5), expected, "{first} {last}");
        }
        assert_eq!(range(0, -1, 0), 0..0);
        assert_eq!(mirrored(&(0..2), 5), 3..5);
        assert_eq!(mirrored(&(0..0), 5), 5..5);
    }
}
