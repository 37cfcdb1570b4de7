//! Integers within a string: those of BITFIELD.

use super::super::Failure;
use super::super::arguments::{is, number, syntax_error};
use super::super::update::VALUE_MAX;
use crate::protocol::reply::Replies;
use crate::values::integer;

/// An integer of so many bits, the highest of which is its sign or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Type {
    is_signed: bool,
    bits: u32,
}

impl Type {
    fn parse(word: &[u8]) -> Result<Self, Failure> {
        let parsed = word.split_first().and_then(|(sign, bits)| {
            let (is_signed, most) = match sign {
                b'i' => (true, 64),
                b'u' => (false, 63),
                _ => return None,
            };
            let bits = integer::parse(bits).filter(|bits| (1..=most).contains(bits))?;
            let bits = bits as u32;
            Some(Self { is_signed, bits })
        });
        parsed.ok_or_else(|| {
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but \
             i64 is."
                .into()
        })
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    fn most(self) -> i128 {
        i128::from(self.mask() >> u32::from(self.is_signed))
    }

    fn least(self) -> i128 {
        if self.is_signed { -self.most() - 1 } else { 0 }
    }

    /// The integer of these bits, of which the lowest ones count.
    fn of_bits(self, bits: u64) -> i128 {
        let bits = bits & self.mask();
        if self.is_signed {
            let unused = 64 - self.bits;
            i128::from((bits << unused) as i64 >> unused)
        } else {
            i128::from(bits)
        }
    }

    /// A number that SET or INCRBY is given: as an unsigned one, if the type is unsigned.
    fn given(self, number: i64) -> i128 {
        if self.is_signed {
            i128::from(number)
        } else {
            i128::from(number as u64)
        }
    }

    /// What is stored for a number; `None`: nothing.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i128> {
        if (self.least()..=self.most()).contains(&number) {
            return Some(number);
        }
        match overflow {
            Overflow::Wrap => Some(self.of_bits(number as u64)),
            Overflow::Saturate => Some(number.clamp(self.least(), self.most())),
            Overflow::Fail => None,
        }
    }
}

/// What becomes of numbers that a type has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Overflow {
    fn parse(word: &[u8]) -> Result<Self, Failure> {
        if is(word, "wrap") {
            Ok(Self::Wrap)
        } else if is(word, "sat") {
            Ok(Self::Saturate)
        } else if is(word, "fail") {
            Ok(Self::Fail)
        } else {
            Err("ERR Invalid OVERFLOW type specified".into())
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

/// One step of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    kind: Type,
    /// The position of its first bit.
    offset: u64,
    action: Action,
}

impl Operation {
    pub(super) fn parse_all(mut words: &[Vec<u8>]) -> Result<Vec<Self>, Failure> {
        let mut overflow = Overflow::Wrap;
        let mut all = Vec::new();
        while let Some((word, behind)) = words.split_first() {
            words = match behind {
                [kind, offset, behind @ ..] if is(word, "get") => {
                    all.push(Self::parse(kind, offset, || Ok(Action::Get))?);
                    behind
                }
                [kind, offset, value, behind @ ..] if is(word, "set") => {
                    let action = || Ok(Action::Set(number(value)?, overflow));
                    all.push(Self::parse(kind, offset, action)?);
                    behind
                }
                [kind, offset, value, behind @ ..] if is(word, "incrby") => {
                    let action = || Ok(Action::Add(number(value)?, overflow));
                    all.push(Self::parse(kind, offset, action)?);
                    behind
                }
                [word_of_it, behind @ ..] if is(word, "overflow") => {
                    overflow = Overflow::parse(word_of_it)?;
                    behind
                }
                _ => return Err(syntax_error()),
            };
        }
        Ok(all)
    }

    fn parse(
        kind: &[u8],
        offset: &[u8],
        action: impl FnOnce() -> Result<Action, Failure>,
    ) -> Result<Self, Failure> {
        let kind = Type::parse(kind)?;
        Ok(Self {
            kind,
            offset: parse_offset(offset, kind.bits)?,
            action: action()?,
        })
    }

    pub(super) fn writes(&self) -> bool {
        self.action != Action::Get
    }

    /// Bytes that a value must have to be written.
    pub(super) fn len(&self) -> u64 {
        (self.offset + u64::from(self.kind.bits)).div_ceil(8)
    }

    fn get(&self, value: &[u8]) -> i128 {
        let (window, shift) = self.window(value);
        self.kind.of_bits((window >> shift) as u64)
    }

    /// The bytes that have the integer, the first one highest, and how many bits follow the integer.
    fn window(&self, value: &[u8]) -> (u128, u32) {
        let start = (self.offset / 8) as usize;
        let mut bytes = [0; 16];
        let there = value.get(start..).unwrap_or_default();
        let len = there.len().min(bytes.len());
        bytes[..len].copy_from_slice(&there[..len]);
        let shift = 128 - (self.offset % 8) as u32 - self.kind.bits;
        (u128::from_be_bytes(bytes), shift)
    }

    /// The value has the bytes of it.
    fn put(&self, value: &mut [u8], number: i128) {
        let (window, shift) = self.window(value);
        let mask = u128::from(self.kind.mask()) << shift;
        let bits = u128::from(number as u64 & self.kind.mask()) << shift;
        let bytes = (window & !mask | bits).to_be_bytes();
        let (start, end) = ((self.offset / 8) as usize, self.len() as usize);
        value[start..end].copy_from_slice(&bytes[..end - start]);
    }

    /// What is replied for it when the value is only read.
    pub(super) fn reply(&self, value: &[u8], replies: &mut Replies) {
        replies.integer(self.get(value) as i64);
    }

    /// Does it, to a value that is long enough if it writes; what is replied for it, `None`: nil.
    pub(super) fn apply(&self, value: &mut [u8]) -> Option<i64> {
        let old = self.get(value);
        let (new, replied) = match self.action {
            Action::Get => return Some(old as i64),
            Action::Set(number, overflow) => {
                let new = self.kind.fit(self.kind.given(number), overflow)?;
                (new, old)
            }
            Action::Add(number, overflow) => {
                let new = self.kind.fit(old + i128::from(number), overflow)?;
                (new, new)
            }
        };
        self.put(value, new);
        Some(replied as i64)
    }
}

/// A position in bits or, behind `#`, in integers of so many bits.
fn parse_offset(word: &[u8], bits: u32) -> Result<u64, Failure> {
    let (digits, unit) = match word {
        [b'#', digits @ ..] => (digits, i64::from(bits)),
        digits => (digits, 1),
    };
    integer::parse(digits)
        .and_then(|offset| offset.checked_mul(unit))
        .and_then(|offset| u64::try_from(offset).ok())
        .filter(|offset| offset / 8 < VALUE_MAX)
        .ok_or_else(|| "ERR bit offset is not an integer or out of range".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operations(text: &str) -> Vec<Operation> {
        let words: Vec<Vec<u8>> = text.split(' ').map(Into::into).collect();
        Operation::parse_all(&words).expect("well made")
    }

    fn apply(value: &mut [u8], text: &str) -> Vec<Option<i64>> {
        operations(text)
            .iter()
            .map(|one| one.apply(value))
            .collect()
    }

    #[test]
    fn integers_of_all_lengths_at_all_places() {
        for kind in (1..=64)
            .map(|bits| format!("i{bits}"))
            .chain((1..=63).map(|bits| format!("u{bits}")))
        {
            for offset in 0..17 {
                let mut value = vec![0xa5; 11];
                let written = apply(&mut value, &format!("set {kind} {offset} -1"));
                let back = apply(
                    &mut value,
                    &format!("get {kind} {offset} set {kind} {offset} 0"),
                );
                let ones = if kind.starts_with('i') {
                    -1
                } else {
                    (1i64 << kind[1..].parse::<u32>().expect("bits")).wrapping_sub(1)
                };
                assert_eq!(back, [Some(ones), Some(ones)], "{kind} at {offset}");
                let old = written[0].expect("wraps");
                apply(&mut value, &format!("set {kind} {offset} {old}"));
                assert_eq!(value, [0xa5; 11], "{kind} at {offset}: the bits around it");
            }
        }
    }

    #[test]
    fn numbers_that_do_not_fit() {
        let mut value = vec![0; 2];
        let text = "overflow sat incrby u8 0 300 incrby i8 8 -300 overflow fail incrby u8 0 1 \
                    overflow wrap incrby u8 0 2 incrby i8 8 -1 set u8 0 -1 overflow sat set u8 0 -5";
        let replies = apply(&mut value, text);
        let expected = [
            Some(255),
            Some(-128),
            None,
            Some(1),
            Some(127),
            Some(1),
            Some(255),
        ];
        assert_eq!(replies, expected);
    }
}
