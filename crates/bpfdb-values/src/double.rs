//! Numbers with a point in 64 bits, as Redis reads and writes scores: by C's `strtod` and `%.17g`.

/// Digits that tell every number from its neighbours.
const DIGITS: i32 = 17;

/// What `strtod` makes of the start of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prefix<'a> {
    /// NaN only if the text says so.
    pub value: f64,
    /// It cannot be represented, not even as a number next to it.
    pub is_out_of_range: bool,
    /// What stands behind the number.
    pub rest: &'a [u8],
}

/// All of a text as a number: no blanks, no NaN, nothing out of range.
pub fn parse(text: &[u8]) -> Option<f64> {
    if text.first().is_none_or(|&byte| is_blank(byte)) {
        return None;
    }
    let read = prefix(text);
    let is_number = read.rest.is_empty() && !read.is_out_of_range && !read.value.is_nan();
    is_number.then_some(read.value)
}

/// The number at the start of a text, behind blanks. Without one: 0, and nothing is read.
pub fn prefix(text: &[u8]) -> Prefix<'_> {
    let blanks = text.iter().take_while(|&&byte| is_blank(byte)).count();
    let (is_negative, unsigned) = match &text[blanks..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let read = special(unsigned)
        .or_else(|| hexadecimal(unsigned))
        .or_else(|| decimal(unsigned));
    let Some(mut read) = read else {
        return Prefix {
            value: 0.0,
            is_out_of_range: false,
            rest: text,
        };
    };
    if is_negative {
        read.value = -read.value;
    }
    read
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn special(text: &[u8]) -> Option<Prefix<'_>> {
    let starts = |word: &str| {
        let start = text.get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
    };
    let (value, len) = if starts("infinity") {
        (f64::INFINITY, 8)
    } else if starts("inf") {
        (f64::INFINITY, 3)
    } else if starts("nan") {
        (f64::NAN, 3 + payload(&text[3..]))
    } else {
        return None;
    };
    Some(Prefix {
        value,
        is_out_of_range: false,
        rest: &text[len..],
    })
}

/// Bytes of what may stand behind NaN, in brackets.
fn payload(text: &[u8]) -> usize {
    let Some(inner) = text.strip_prefix(b"(") else {
        return 0;
    };
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let len = inner.iter().take_while(|byte| is_word(byte)).count();
    if inner.get(len) == Some(&b')') {
        len + 2
    } else {
        0
    }
}

/// Digits with a point among them, perhaps: how long, and how many digits there are.
fn digits(text: &[u8], is_digit: impl Fn(&u8) -> bool) -> (usize, usize) {
    let count = |text: &[u8]| text.iter().take_while(|byte| is_digit(byte)).count();
    let whole = count(text);
    if text.get(whole) != Some(&b'.') {
        return (whole, whole);
    }
    let places = count(&text[whole + 1..]);
    (whole + 1 + places, whole + places)
}

/// An exponent behind this letter: its value, and how long. Without one, 0.
fn exponent(text: &[u8], letter: u8) -> (i64, usize) {
    const HUGE: i64 = 1 << 40;
    let Some((first, rest)) = text.split_first() else {
        return (0, 0);
    };
    if first.to_ascii_lowercase() != letter {
        return (0, 0);
    }
    let (is_negative, unsigned) = match rest {
        [b'-', unsigned @ ..] => (true, unsigned),
        [b'+', unsigned @ ..] => (false, unsigned),
        unsigned => (false, unsigned),
    };
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    let len = unsigned.iter().take_while(is_digit).count();
    if len == 0 {
        return (0, 0);
    }
    let value = unsigned[..len].iter().fold(0, |value, digit| {
        (value * 10 + i64::from(digit - b'0')).min(HUGE)
    });
    let value = if is_negative { -value } else { value };
    (value, 1 + rest.len() - unsigned.len() + len)
}

fn decimal(text: &[u8]) -> Option<Prefix<'_>> {
    let (mantissa, count) = digits(text, u8::is_ascii_digit);
    if count == 0 {
        return None;
    }
    let (_, len) = exponent(&text[mantissa..], b'e');
    let (number, rest) = text.split_at(mantissa + len);
    let value: f64 = std::str::from_utf8(number).ok()?.parse().ok()?;
    let is_zero = text[..mantissa].iter().all(|byte| b"0.".contains(byte));
    Some(Prefix {
        value,
        is_out_of_range: value.is_infinite() || (value == 0.0 && !is_zero),
        rest,
    })
}

fn hexadecimal(text: &[u8]) -> Option<Prefix<'_>> {
    let ([b'0', b'x' | b'X'], behind) = text.split_at_checked(2)? else {
        return None;
    };
    let (len, count) = digits(behind, u8::is_ascii_hexdigit);
    if count == 0 {
        return None;
    }
    let (mantissa, rest) = behind.split_at(len);
    let (mut bits, mut power, mut is_behind_point) = (0_u64, 0_i64, false);
    for &byte in mantissa {
        let Some(digit) = char::from(byte).to_digit(16) else {
            is_behind_point = true;
            continue;
        };
        // What finds no room only matters for the direction of rounding.
        if bits >> 59 == 0 {
            bits = bits << 4 | u64::from(digit);
            power -= if is_behind_point { 4 } else { 0 };
        } else {
            bits |= u64::from(digit != 0);
            power += if is_behind_point { 0 } else { 4 };
        }
    }
    let (exponent, len) = exponent(rest, b'p');
    let value = scaled(bits, power + exponent);
    Some(Prefix {
        value,
        is_out_of_range: value.is_infinite() || (value == 0.0 && bits != 0),
        rest: &rest[len..],
    })
}

/// bits × 2^power, rounded to the nearest and to even.
fn scaled(bits: u64, power: i64) -> f64 {
    if bits == 0 {
        return 0.0;
    }
    let len = i64::from(u64::BITS - bits.leading_zeros());
    let top = power + len - 1;
    if top > 1023 {
        return f64::INFINITY;
    }
    // The lowest bit that a number of this size has.
    let lowest = (top - 52).max(-1074);
    let shift = lowest - power;
    let kept = match shift {
        ..=0 => bits << -shift,
        1..=63 => rounded(bits, shift as u32),
        64 => u64::from(bits > 1 << 63),
        _ => 0,
    };
    // Both factors and the product are exact.
    kept as f64 * power_of_2(lowest)
}

/// bits / 2^shift.
fn rounded(bits: u64, shift: u32) -> u64 {
    let (kept, rest, half) = (bits >> shift, bits & ((1 << shift) - 1), 1 << (shift - 1));
    kept + u64::from(rest > half || (rest == half && kept & 1 == 1))
}

/// 2^power, for -1074 and more.
fn power_of_2(power: i64) -> f64 {
    f64::from_bits(if power < -1022 {
        1 << (power + 1074)
    } else {
        ((power + 1023) as u64) << 52
    })
}

/// As `%.17g` of C writes it, and infinities as `inf` and `-inf`.
pub fn text(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{value:.*e}", DIGITS as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..DIGITS).contains(&exponent) {
        let places = (DIGITS - 1 - exponent) as usize;
        return without_zeros(&format!("{value:.places$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let mantissa = without_zeros(mantissa);
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// A number without a fraction, whose magnitude is below `end`; not minus zero.
pub fn whole(value: f64, end: f64) -> Option<i64> {
    let is_minus_zero = value == 0.0 && value.is_sign_negative();
    (value.abs() < end && value.trunc() == value && !is_minus_zero).then_some(value as i64)
}

/// As Redis keeps a score in its compact encoding, and shows it in ZSCAN.
pub fn compact_text(score: f64) -> String {
    // Half of the integers of 64 bits.
    const END: f64 = 4_611_686_018_427_387_904.0;
    whole(score, END).map_or_else(|| text(score), |whole| whole.to_string())
}

/// Zeros at the end, behind a point, say nothing.
fn without_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use proptest::prelude::*;

    use super::*;

    /// What C makes of a text, and how many bytes of it.
    fn by_c(text: &[u8]) -> (f64, usize) {
        let text = CString::new(text).expect("no zero");
        let mut end = std::ptr::null_mut();
        // SAFETY: the text ends with a zero, and `end` is a place for a pointer into it.
        let value = unsafe { libc::strtod(text.as_ptr(), &raw mut end) };
        // SAFETY: both point into the text.
        let read = unsafe { end.offset_from(text.as_ptr()) };
        (value, usize::try_from(read).expect("forward"))
    }

    /// What C's `%.17g` makes of a number.
    fn text_by_c(value: f64) -> String {
        let mut bytes = [0_u8; 40];
        // SAFETY: the memory has as many bytes as is said, and the format takes one double.
        let len = unsafe {
            libc::snprintf(
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                c"%.17g".as_ptr(),
                value,
            )
        };
        String::from_utf8_lossy(&bytes[..len as usize]).into_owned()
    }

    fn is_as_in_c(text: &[u8]) {
        let read = prefix(text);
        let (value, len) = by_c(text);
        let shown = String::from_utf8_lossy(text);
        assert_eq!(text.len() - read.rest.len(), len, "{shown:?}");
        assert!(
            value.to_bits() == read.value.to_bits() || (value.is_nan() && read.value.is_nan()),
            "{shown:?}: {value:e}, {:e}",
            read.value
        );
    }

    proptest! {
        #[test]
        fn texts_are_those_of_c(bits: u64, whole: i32, eighths: i64) {
            let tie = eighths as f64 / 8.0;
            for value in [f64::from_bits(bits), f64::from(whole), f64::from(whole) / 100.0, tie] {
                prop_assume!(!value.is_nan());
                let text = text(value);
                prop_assert_eq!(&text, &text_by_c(value));
                prop_assert_eq!(parse(text.as_bytes()), Some(value));
            }
        }

        #[test]
        fn numbers_are_those_of_c(text in "[ ]{0,1}[+-]{0,1}(0[xX]){0,1}[0-9a-f]{0,20}[.]{0,1}[0-9a-f]{0,20}([eEpP][+-]{0,1}[0-9]{1,4}){0,1}[a-z ]{0,1}") {
            is_as_in_c(text.as_bytes());
        }

        #[test]
        fn words_are_those_of_c(text in "[+-]{0,1}(nan|NaN|inf|Infinity|infin|0x|e|[.]|-|)([(][a-z_0-9]{0,2}[)]{0,1}){0,1}[0-9]{0,1}") {
            is_as_in_c(text.as_bytes());
        }
    }

    #[test]
    fn ends_of_the_range() {
        for text in [
            "1.7976931348623157e308",
            "1.7976931348623159e308",
            "4.9e-324",
            "2.4e-324",
            "0x1p-1074",
            "0x1p-1075",
            "0x1.8p-1075",
            "0x1.fffffffffffffp1023",
            "0x1.fffffffffffff8p1023",
            "0x1.00000000000008p0",
            "0x1.000000000000081p0",
            "0x0.00000000000000000000000000000000001p4",
            "1e99999999999999999999",
            "0e99999999999999999999",
        ] {
            is_as_in_c(text.as_bytes());
        }
    }

    #[test]
    fn what_is_no_score() {
        for text in [
            "", " 1", "1 ", "nan", "1e400", "-1e400", "1e-400", "a", "1a", "+", "0x",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
        for (text, value) in [
            ("3", 3.0),
            ("+3.5", 3.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("0x10", 16.0),
            ("-inf", f64::NEG_INFINITY),
            ("Infinity", f64::INFINITY),
            ("4.9e-324", f64::from_bits(1)),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(value), "{text:?}");
        }
    }

    #[test]
    fn scores_as_redis_writes_them() {
        for (value, expected) in [
            (3.0, "3"),
            (-0.5, "-0.5"),
            (0.1, "0.10000000000000001"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e22, "1e+22"),
            (1e-5, "1.0000000000000001e-05"),
            (1_125_899_906_842_624.0 + 0.25, "1125899906842624.2"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(text(value), expected);
        }
    }
}
