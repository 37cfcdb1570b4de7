//! Scores as text, as Redis 7.0 writes them: 17 significant digits, in the shorter of two forms.

/// Digits that tell every number apart.
const DIGITS: usize = 17;
/// Integers up to this one, and down to its negative, are all scores.
const INTEGER_MAX: f64 = (1_u64 << 52) as f64;

/// What C's `%.17g` makes of a score.
pub(super) fn text(score: f64) -> String {
    if score.is_infinite() {
        return if score > 0.0 { "inf" } else { "-inf" }.into();
    }
    if score.abs() < INTEGER_MAX && score.fract() == 0.0 {
        return (score as i64).to_string();
    }
    let scientific = format!("{score:.*e}", DIGITS - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS as i32).contains(&exponent) {
        let places = (DIGITS as i32 - 1 - exponent) as usize;
        return without_zeros(&format!("{score:.places$}")).into();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(digits), exponent.abs())
}

/// Without zeros at the end of a fraction.
fn without_zeros(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::text;

    #[test]
    fn as_redis_writes_them() {
        for (score, wanted) in [
            (0.0, "0"),
            (-1.0, "-1"),
            (2.5, "2.5"),
            (0.1, "0.10000000000000001"),
            (1e300, "1.0000000000000001e+300"),
            (1e-5, "1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            assert_eq!(text(score), wanted);
        }
    }

    proptest! {
        #[test]
        fn scores_come_back(score: f64) {
            prop_assert_eq!(text(score).parse(), Ok(score));
        }
    }
}
