//! The 80-bit numbers that Redis calculates INCRBYFLOAT with (`long double` on
//! this processor), so that results have the same digits.
//!
//! A number is mantissa × 2^exponent, the mantissa with its highest of 64 bits
//! set. Text is read and sums are taken exactly, and rounded once, to the
//! nearest and to even, as the processor does.

mod big;

use big::Big;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extended {
    Finite {
        negative: bool,
        /// 0: the number is 0.
        mantissa: u64,
        exponent: i32,
    },
    Infinite,
}

/// Of numbers that are not infinite: the value is below 2^16384.
const EXPONENT_MAX: i32 = 16384 - 64;
/// Smaller numbers are 0: the least that is not has this exponent.
const EXPONENT_MIN: i32 = -16445 - 63;
/// Redis reads no longer text.
const TEXT_MAX: usize = 5 * 1024;
/// Digits behind the point that Redis writes.
const PLACES: u32 = 17;

impl Extended {
    pub(crate) const ZERO: Self = Self::Finite {
        negative: false,
        mantissa: 0,
        exponent: 0,
    };

    /// The number that this text means, if it means one: decimal or
    /// hexadecimal, with or without exponent, or infinity.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() >= TEXT_MAX {
            return None;
        }
        let (negative, rest) = match text.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, text),
        };
        if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
            return Some(Self::Infinite);
        }
        let literal = Literal::parse(rest)?;
        match literal.value(negative) {
            Self::Infinite => None,
            Self::Finite { mantissa: 0, .. } if !literal.digits.is_zero() => None,
            value => Some(value),
        }
    }

    /// The sum; `None` if it is not finite.
    pub(crate) fn add(self, other: Self) -> Option<Self> {
        let (mut a, mut b) = (self.exact()?, other.exact()?);
        let exponent = a.exponent.min(b.exponent);
        a.lower_to(exponent);
        b.lower_to(exponent);
        let (negative, sum) = if a.negative == b.negative {
            (a.negative, a.magnitude.plus(&b.magnitude))
        } else if a.magnitude.is_less_than(&b.magnitude) {
            (b.negative, b.magnitude.minus(&a.magnitude))
        } else {
            (a.negative, a.magnitude.minus(&b.magnitude))
        };
        match rounded(negative, sum, exponent, false) {
            Self::Infinite => None,
            sum => Some(sum),
        }
    }

    fn exact(self) -> Option<Exact> {
        match self {
            Self::Infinite => None,
            Self::Finite {
                negative,
                mantissa,
                exponent,
            } => Some(Exact {
                negative,
                magnitude: Big::from(mantissa),
                exponent,
            }),
        }
    }

    /// All digits before the point, up to 17 behind it.
    pub(crate) fn to_text(self) -> String {
        let Self::Finite {
            negative,
            mantissa,
            exponent,
        } = self
        else {
            return "inf".into();
        };
        let text = if exponent >= 0 {
            let mut whole = Big::from(mantissa);
            whole.shift_left(exponent as u32);
            whole.to_decimal()
        } else {
            fraction_text(mantissa, exponent.unsigned_abs())
        };
        if negative && text != "0" {
            format!("-{text}")
        } else {
            text
        }
    }
}

/// A number that is not rounded yet.
struct Exact {
    negative: bool,
    magnitude: Big,
    exponent: i32,
}

impl Exact {
    fn lower_to(&mut self, exponent: i32) {
        // Zero has any exponent.
        if !self.magnitude.is_zero() {
            self.magnitude
                .shift_left((self.exponent - exponent).unsigned_abs());
        }
        self.exponent = exponent;
    }
}

/// mantissa / 2^shift with 17 places, rounded to the nearest and to even.
fn fraction_text(mantissa: u64, shift: u32) -> String {
    let scale = 10u128.pow(PLACES);
    let scaled = u128::from(mantissa) * scale;
    let units = if shift > 127 {
        0
    } else {
        let (low, half) = (scaled & ((1 << shift) - 1), 1 << (shift - 1));
        let units = scaled >> shift;
        units + u128::from(low > half || (low == half && units & 1 == 1))
    };
    let text = format!("{}.{:017}", units / scale, units % scale);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// magnitude × 2^exponent as a number; `more`: something smaller than the last
/// bit of the magnitude was left out.
fn rounded(negative: bool, magnitude: Big, exponent: i32, more: bool) -> Extended {
    let bits = magnitude.bits();
    if bits == 0 {
        return Extended::ZERO;
    }
    let (mut mantissa, mut exponent) = if bits <= 64 {
        let mantissa = magnitude.low_64();
        let shift = 64 - bits;
        (mantissa << shift, exponent - shift as i32)
    } else {
        let shift = bits - 64;
        let (top, rest) = magnitude.split(shift);
        let up = rest.is_above_half(more, top & 1 == 1);
        match top.checked_add(up.into()) {
            Some(mantissa) => (mantissa, exponent + shift as i32),
            None => (1 << 63, exponent + shift as i32 + 1),
        }
    };
    if exponent > EXPONENT_MAX {
        return Extended::Infinite;
    }
    if exponent < EXPONENT_MIN {
        (mantissa, exponent) = (0, 0);
    }
    Extended::Finite {
        negative,
        mantissa,
        exponent,
    }
}

/// digits × 10^exponent; or, if it was written in hexadecimal digits,
/// digits × 2^exponent.
struct Literal {
    digits: Big,
    exponent: i64,
    hexadecimal: bool,
}

impl Literal {
    fn parse(text: &[u8]) -> Option<Self> {
        let hexadecimal = matches!(text, [b'0', b'x' | b'X', ..]);
        let (base, places) = if hexadecimal { (16, 4) } else { (10, 1) };
        let mut digits = Big::default();
        let (mut exponent, mut seen, mut point) = (0, false, false);
        let mut rest = &text[if hexadecimal { 2 } else { 0 }..];
        while let Some((&byte, behind)) = rest.split_first() {
            match char::from(byte).to_digit(base) {
                Some(digit) => {
                    digits.multiply_add(base, digit);
                    exponent -= if point { places } else { 0 };
                    seen = true;
                }
                None if byte == b'.' && !point => point = true,
                None => break,
            }
            rest = behind;
        }
        if !seen {
            return None;
        }
        if !rest.is_empty() {
            exponent += exponent_of(rest, if hexadecimal { b'p' } else { b'e' })?;
        }
        Some(Self {
            digits,
            exponent,
            hexadecimal,
        })
    }

    fn value(&self, negative: bool) -> Extended {
        // Far outside of what can be represented: nothing to calculate.
        const FAR: i64 = 40_000;
        if self.digits.is_zero() || self.exponent < -FAR {
            return Extended::ZERO;
        }
        if self.exponent > FAR {
            return Extended::Infinite;
        }
        let mut number = self.digits.clone();
        if self.hexadecimal {
            return rounded(negative, number, self.exponent as i32, false);
        }
        if self.exponent >= 0 {
            number.multiply_by_power_of_10(self.exponent as u32);
            return rounded(negative, number, 0, false);
        }
        let places = self.exponent.unsigned_abs() as u32;
        // The quotient has more than 64 bits then: 10^n is below 2^(4n).
        let shift = 4 * places + 66;
        number.shift_left(shift);
        let rest = number.divide_by_power_of_10(places);
        rounded(negative, number, -(shift as i32), rest)
    }
}

/// A letter and an integer, at the end of a number.
fn exponent_of(text: &[u8], letter: u8) -> Option<i64> {
    const HUGE: i64 = 1_000_000;
    let (first, rest) = text.split_first()?;
    if first.to_ascii_lowercase() != letter {
        return None;
    }
    let (negative, digits) = match rest.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0, |value, digit| {
        (value * 10 + i64::from(digit - b'0')).min(HUGE)
    });
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::Extended;

    fn number(text: &str) -> Extended {
        Extended::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a number"))
    }

    fn sum(a: &str, b: &str) -> String {
        number(a).add(number(b)).expect("finite").to_text()
    }

    #[test]
    fn sums_as_redis_writes_them() {
        for (a, b, expected) in [
            ("0", "0", "0"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("0.1", "0.2", "0.3"),
            ("3", "-3", "0"),
            ("-0", "0", "0"),
            ("1", "-1.5", "-0.5"),
            ("3.0e3", "0", "3000"),
            ("1e-17", "0", "0.00000000000000001"),
            ("1e-18", "0", "0"),
            ("-1e-18", "0", "0"),
            ("17179869184", "0.25", "17179869184.25"),
            ("0x10", "0X.8p1", "17"),
            ("1e20", "1", "100000000000000000000"),
            ("12345678901234567890", "1", "12345678901234567891"),
            ("1000000000000000000000", "1", "1000000000000000000000"),
        ] {
            assert_eq!(sum(a, b), expected, "{a} + {b}");
            assert_eq!(sum(b, a), expected, "{b} + {a}");
        }
    }

    #[test]
    fn what_is_no_number() {
        for text in [
            "", " 1", "1 ", "a", ".", "-", "1e", "1e+", "e5", "1.2.3", "nan", "1e5000", "1e-5000",
            "--1", "1f", "0x", "0xg", "0x1e+1",
        ] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text:?}");
        }
        for text in [".5", "5.", "+1", "1E5", "1e4931", "0e9999999", "1e-4931"] {
            number(text);
        }
    }

    #[test]
    fn sums_that_are_not_finite() {
        assert_eq!(number("inf").add(number("1")), None);
        assert_eq!(number("1.1e4932").add(number("1.1e4932")), None);
    }
}
