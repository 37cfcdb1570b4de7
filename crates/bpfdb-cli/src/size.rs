//! Sizes as people write them: `512M`, `4G`.

const UNITS: [(&str, u32); 4] = [("K", 10), ("M", 20), ("G", 30), ("T", 40)];

/// Reads a number of bytes, with an optional K, M, G or T (of 1024), and an
/// optional B or iB behind it.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let upper = text.trim().to_ascii_uppercase();
    let short = upper
        .strip_suffix("IB")
        .or(upper.strip_suffix('B'))
        .unwrap_or(&upper);
    let (digits, shift) = UNITS
        .iter()
        .find_map(|(unit, shift)| Some((short.strip_suffix(unit)?, *shift)))
        .unwrap_or((short, 0));
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| format!("{text} is not a size: write 512M or 4G"))
}

/// Writes a number of bytes with the largest unit that keeps it above 1.
pub(crate) fn format(bytes: u64) -> String {
    let (unit, shift) = UNITS
        .iter()
        .rev()
        .find(|(_, shift)| bytes >> shift > 0)
        .copied()
        .unwrap_or(("", 0));
    if shift == 0 {
        return format!("{bytes} B");
    }
    let value = bytes as f64 / (1u64 << shift) as f64;
    format!("{value:.1} {unit}iB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse("0"), Ok(0));
        assert_eq!(parse("17"), Ok(17));
        assert_eq!(parse("2k"), Ok(2048));
        assert_eq!(parse("512M"), Ok(512 << 20));
        assert_eq!(parse("4GiB"), Ok(4 << 30));
        assert_eq!(parse("1tb"), Ok(1 << 40));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "G", "-1", "1.5G", "4X", "99999999999T"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_written() {
        assert_eq!(format(0), "0 B");
        assert_eq!(format(1023), "1023 B");
        assert_eq!(format(1536), "1.5 KiB");
        assert_eq!(format(4 << 30), "4.0 GiB");
    }
}
