//! Points in time, as people type and read them.

use std::str::FromStr;

use anyhow::{Error, Result, anyhow};
use bpfdb_log::{LogError, Until};
use jiff::Timestamp;

/// A timestamp of a commit, or a time of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) Until);

/// How one is typed.
pub(crate) const HINT: &str = "TIMESTAMP|TIME";

impl FromStr for Moment {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Ok(timestamp) = text.parse() {
            return Ok(Self(Until::Timestamp(timestamp)));
        }
        let time: Timestamp = text.parse().map_err(|error| {
            anyhow!(
                "it is neither a timestamp, a number, nor a time like 2026-11-23T12:00:00Z: {error}"
            )
        })?;
        let wall = u64::try_from(time.as_nanosecond());
        let wall = wall.map_err(|_| anyhow!("it is before 1970 or after 2554"))?;
        Ok(Self(Until::Wall(wall)))
    }
}

/// Nanoseconds of UNIX time, with all their digits.
pub(crate) fn show(wall: u64) -> String {
    match Timestamp::from_nanosecond(i128::from(wall)) {
        Ok(time) => format!("{time:.9}"),
        Err(_) => format!("{wall} ns of UNIX time"),
    }
}

/// The error, with the time that it names as people read it.
pub(crate) fn explained(error: LogError) -> Error {
    match error {
        LogError::TooEarly(earliest) if earliest.wall > 0 => {
            let time = show(earliest.wall);
            Error::from(error).context(format!("nothing before {time} can be had"))
        }
        error => error.into(),
    }
}

/// Nanoseconds of UNIX time, by now.
pub(crate) fn now() -> u64 {
    u64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_timestamp() {
        assert_eq!(
            "17".parse::<Moment>().expect("good").0,
            Until::Timestamp(17)
        );
    }

    #[test]
    fn a_time_has_any_offset() {
        let noon = Until::Wall(1_795_435_200_000_000_000);
        for text in ["2026-11-23T12:00:00Z", "2026-11-23 13:00:00+01:00"] {
            assert_eq!(text.parse::<Moment>().expect("good").0, noon, "{text}");
        }
        assert_eq!(
            show(1_795_435_200_000_000_007),
            "2026-11-23T12:00:00.000000007Z"
        );
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "-1",
            "yesterday",
            "2026-11-23",
            "2026-11-23T12:00:00",
            "1969-12-31T23:59:59Z",
        ] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }
}
