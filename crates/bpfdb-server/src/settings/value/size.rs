//! Sizes in bytes, with units.

use std::fmt;

use super::Value;

/// A number of bytes: `512M`, `4gb`. Units are of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    const UNITS: [(&str, u32); 4] = [("K", 10), ("M", 20), ("G", 30), ("T", 40)];

    pub const fn mib(number: u64) -> Self {
        Self(number << 20)
    }

    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl std::str::FromStr for Size {
    type Err = String;

    /// Reads a number, with an optional K, M, G or T, and an optional B or iB
    /// behind it.
    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.trim().to_ascii_uppercase();
        let short = upper
            .strip_suffix("IB")
            .or(upper.strip_suffix('B'))
            .unwrap_or(&upper);
        let (digits, shift) = Self::UNITS
            .iter()
            .find_map(|(unit, shift)| Some((short.strip_suffix(unit)?, *shift)))
            .unwrap_or((short, 0));
        digits
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(1 << shift))
            .map(Self)
            .ok_or_else(|| "argument must be a memory value, as 512M or 4G".into())
    }
}

/// With the largest unit that keeps it above 1.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        let unit = Self::UNITS
            .iter()
            .rev()
            .find(|(_, shift)| bytes >> shift > 0);
        match unit {
            Some((unit, shift)) => {
                let value = bytes as f64 / (1u64 << shift) as f64;
                f.pad(&format!("{value:.1} {unit}iB"))
            }
            None => f.pad(&format!("{bytes} B")),
        }
    }
}

impl Value for Size {
    const HINT: &'static str = "SIZE";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn show(&self) -> String {
        self.0.to_string()
    }

    fn number(&self) -> Option<i64> {
        i64::try_from(self.0).ok()
    }
}

/// What all clients together may make the daemon keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientMemory {
    /// 0: no limit.
    Bytes(Size),
    /// Of `maxmemory`; from 1 to 100.
    Percent(u8),
}

impl ClientMemory {
    /// Bytes, with so many of `maxmemory`; `None`: no limit.
    pub fn limit(self, max_memory: u64) -> Option<u64> {
        match self {
            Self::Bytes(Size(0)) => None,
            Self::Bytes(Size(bytes)) => Some(bytes),
            Self::Percent(percent) => Some(max_memory / 100 * u64::from(percent)),
        }
    }
}

impl Value for ClientMemory {
    const HINT: &'static str = "SIZE|N%";

    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "argument must be a memory or percent value".to_owned();
        let Some(digits) = text.strip_suffix('%') else {
            return text.parse().map(Self::Bytes).map_err(|_: String| wrong());
        };
        match digits.parse::<u64>() {
            Ok(0) => Ok(Self::Bytes(Size(0))),
            Ok(percent @ 1..=100) => Ok(Self::Percent(percent as u8)),
            Ok(_) => Err("percentage argument must be less or equal to 100".into()),
            Err(_) => Err(wrong()),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Bytes(size) => size.show(),
            Self::Percent(percent) => format!("{percent}%"),
        }
    }
}
