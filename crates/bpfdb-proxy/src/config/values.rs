//! How values are written in files.

use std::time::Duration;

pub(super) use crate::settings::seconds;

/// Whatever is not wanted.
pub(super) type Result<T> = std::result::Result<T, String>;

pub(super) fn flag(text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" | "t" | "y" => Ok(true),
        "0" | "off" | "no" | "false" | "f" | "n" => Ok(false),
        _ => Err(format!("{text} is neither 1 nor 0")),
    }
}

pub(super) fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse()
        .map_err(|_| format!("{text} is no number, or too large"))
}

pub(super) fn shown_seconds(time: Duration) -> String {
    match time {
        time if time.subsec_nanos() == 0 => time.as_secs().to_string(),
        time => time.as_secs_f64().to_string(),
    }
}

pub(super) fn list(text: &str) -> Vec<String> {
    let names = text.split([',', ' ', '\t']);
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// An octal number, as `chmod` takes it.
pub(super) fn file_mode(text: &str) -> Result<u32> {
    let mode = u32::from_str_radix(text, 8).ok();
    mode.filter(|mode| *mode <= 0o777)
        .ok_or_else(|| format!("{text} is no mode of a file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
        for (text, time) in [
            ("0", Duration::ZERO),
            ("15", Duration::from_secs(15)),
            ("0.5", Duration::from_millis(500)),
        ] {
            assert_eq!(seconds(text), Ok(time));
            assert_eq!(shown_seconds(time), text);
        }
        assert!(seconds("-1").is_err() && seconds("a").is_err() && seconds("").is_err());
    }

    #[test]
    fn lists_flags_and_modes_are_read() {
        assert_eq!(list(" a,b, c "), ["a", "b", "c"]);
        assert_eq!((flag("Yes"), flag("0")), (Ok(true), Ok(false)));
        assert!(flag("2").is_err());
        assert_eq!(file_mode("0700"), Ok(0o700));
        assert!(file_mode("8").is_err() && file_mode("7777").is_err());
    }
}
