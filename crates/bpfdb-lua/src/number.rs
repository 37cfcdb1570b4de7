//! Numbers as C prints them, which is how Redis's Lua does.

use std::ffi::CStr;

/// Digits that tell every number from its neighbours.
pub(crate) const EXACT: usize = 17;
/// Digits that Lua shows.
pub(crate) const SHOWN: usize = 14;
/// A sign, the digits, a point, an exponent of four characters, the end; or `-nan`.
const LONGEST: usize = 32;

/// A reply `{double = value}` as Redis 7.0 writes it: with 17 digits, which not all of them need.
pub fn text_of_double(value: f64) -> String {
    format(value, EXACT)
}

/// `%.<digits>g` of C.
pub(crate) fn format(value: f64, digits: usize) -> String {
    let mut text = [0u8; LONGEST];
    let precision = libc::c_int::try_from(digits.min(EXACT)).unwrap_or(libc::c_int::MAX);
    // SAFETY: at most LONGEST bytes are written, with a zero at their end.
    let len = unsafe {
        libc::snprintf(
            text.as_mut_ptr().cast(),
            LONGEST,
            c"%.*g".as_ptr(),
            precision,
            value,
        )
    };
    debug_assert!(usize::try_from(len).is_ok_and(|len| len < LONGEST));
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

/// The integer that C makes of it on this machine: towards zero; of what has none, the least.
pub(crate) fn truncate(value: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_c_prints_them() {
        assert_eq!(format(1.5, EXACT), "1.5");
        assert_eq!(format(10.0 / 3.0, EXACT), "3.3333333333333335");
        assert_eq!(format(1e20, EXACT), "1e+20");
        assert_eq!(format(-0.0, EXACT), "-0");
        assert_eq!(format(9_007_199_254_740_992.0, EXACT), "9007199254740992");
        assert_eq!(format(9_007_199_254_740_992.0, SHOWN), "9.007199254741e+15");
        assert_eq!(format(f64::INFINITY, EXACT), "inf");
        assert_eq!(format(f64::MIN, EXACT).len(), 24);
    }

    #[test]
    fn towards_zero() {
        assert_eq!([1.9, -1.9, 0.0].map(truncate), [1, -1, 0]);
        assert_eq!(truncate(1e300), i64::MIN);
        assert_eq!(truncate(f64::NAN), i64::MIN);
        assert_eq!(truncate(-9_223_372_036_854_775_808.0), i64::MIN);
    }
}
