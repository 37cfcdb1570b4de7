//! Bits of a value: the first is the highest of the first byte.

use super::super::Failure;
use super::super::arguments::{is, number, syntax_error};
use super::super::update::VALUE_MAX;
use crate::values::integer;

/// The position of a bit, given as an argument.
pub(super) fn offset(text: &[u8]) -> Result<u64, Failure> {
    integer::parse(text)
        .and_then(|offset| u64::try_from(offset).ok())
        .filter(|offset| offset / 8 < VALUE_MAX)
        .ok_or_else(|| "ERR bit offset is not an integer or out of range".into())
}

pub(super) fn get(value: &[u8], bit: u64) -> bool {
    value
        .get((bit / 8) as usize)
        .is_some_and(|byte| byte >> (7 - bit % 8) & 1 == 1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Byte,
    Bit,
}

impl Unit {
    pub(super) fn parse(word: &[u8]) -> Result<Self, Failure> {
        if is(word, "bit") {
            Ok(Self::Bit)
        } else if is(word, "byte") {
            Ok(Self::Byte)
        } else {
            Err(syntax_error())
        }
    }

    fn bits(self) -> i64 {
        match self {
            Self::Byte => 8,
            Self::Bit => 1,
        }
    }
}

/// Positions of bits from start to end (both included), given in a unit;
/// negative ones count from the end of a value of `len` bytes. Empty if there
/// are none.
pub(super) fn range(start: i64, end: i64, unit: Unit, len: usize) -> std::ops::Range<u64> {
    let units = len as i64 * 8 / unit.bits();
    let position = |at: i64| if at < 0 { (units + at).max(0) } else { at };
    let (start, end) = (position(start), position(end).min(units - 1));
    if start > end {
        return 0..0;
    }
    (start * unit.bits()) as u64..((end + 1) * unit.bits()) as u64
}

/// Two positions given as arguments.
pub(super) fn positions(start: &[u8], end: &[u8]) -> Result<(i64, i64), Failure> {
    Ok((number(start)?, number(end)?))
}

/// Bits that are set.
pub(super) fn count(value: &[u8], bits: std::ops::Range<u64>) -> u64 {
    let whole = bits.start.div_ceil(8)..bits.end / 8;
    if whole.start >= whole.end {
        return bits.filter(|&bit| get(value, bit)).count() as u64;
    }
    let bytes = &value[whole.start as usize..whole.end as usize];
    let in_bytes = ones(bytes);
    let edges = (bits.start..whole.start * 8).chain(whole.end * 8..bits.end);
    in_bytes + edges.filter(|&bit| get(value, bit)).count() as u64
}

/// Bits that are set in all of these bytes. By the processor's instruction, if it has
/// one: that is not among those which every x86-64 has.
fn ones(bytes: &[u8]) -> u64 {
    #[target_feature(enable = "popcnt")]
    fn by_instruction(bytes: &[u8]) -> u64 {
        by_words(bytes)
    }
    if std::arch::is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor has it.
        return unsafe { by_instruction(bytes) };
    }
    by_words(bytes)
}

#[inline]
fn by_words(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let in_words = words
        .iter()
        .map(|word| u64::from_ne_bytes(*word).count_ones());
    let in_rest = rest.iter().map(|byte| byte.count_ones());
    in_words.chain(in_rest).map(u64::from).sum()
}

/// The first bit of this kind.
pub(super) fn find(value: &[u8], bits: std::ops::Range<u64>, set: bool) -> Option<u64> {
    let other = if set { 0 } else { 0xff };
    let mut bit = bits.start;
    while bit < bits.end {
        if bit.is_multiple_of(8) && value.get((bit / 8) as usize) == Some(&other) {
            bit += 8;
        } else if get(value, bit) == set {
            return Some(bit);
        } else {
            bit += 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(range(0, -1, Unit::Byte, 3), 0..24);
        assert_eq!(range(1, 1, Unit::Byte, 3), 8..16);
        assert_eq!(range(-1, -1, Unit::Bit, 3), 23..24);
        assert_eq!(range(-100, 100, Unit::Bit, 1), 0..8);
        assert!(range(2, 1, Unit::Byte, 3).is_empty());
        assert!(range(0, -1, Unit::Byte, 0).is_empty());
        assert!(range(i64::MIN, i64::MIN, Unit::Bit, 1) == (0..1));
        assert!(range(i64::MAX, i64::MAX, Unit::Byte, 1).is_empty());
    }

    #[test]
    fn counting_and_finding_agree_with_every_bit() {
        let value: Vec<u8> = (0..6).map(|i| [0, 0xff, 0x0f, 0xa5, 0xff, 0][i]).collect();
        for start in 0..48 {
            for end in start..=48 {
                let set: Vec<u64> = (start..end).filter(|&bit| get(&value, bit)).collect();
                let clear = (start..end).find(|&bit| !get(&value, bit));
                assert_eq!(
                    count(&value, start..end),
                    set.len() as u64,
                    "{start}..{end}"
                );
                assert_eq!(find(&value, start..end, true), set.first().copied());
                assert_eq!(find(&value, start..end, false), clear);
            }
        }
    }
}
