//! A place in the log, as people read and type it: `log/0000000000000002.log:8192`.

use std::fmt;
use std::str::FromStr;

use crate::format::layout::{BLOCK, COUNT_MAX};
use crate::format::segment::{self, Named};

/// Between two batches, or before the first of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Number of the segment.
    pub segment: u64,
    /// Bytes from the beginning of its file: a multiple of a block. 0: before its header.
    pub offset: u64,
}

/// Why a text is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    #[error("it is not like log/0000000000000002.log:8192: a segment, a colon, an offset in bytes")]
    Form,
    #[error("batches begin at multiples of {BLOCK} bytes")]
    Offset,
}

impl Place {
    /// Whether the segment with this number is behind the place, with its header.
    pub(crate) fn hides(&self, segment: u64) -> bool {
        segment > self.segment || (segment == self.segment && self.offset == 0)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", segment::name(self.segment), self.offset)
    }
}

impl FromStr for Place {
    type Err = NoPlace;

    /// The folder's name may be left out.
    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let (file, offset) = text.rsplit_once(':').ok_or(NoPlace::Form)?;
        let file = file.strip_prefix("log/").unwrap_or(file);
        let Some(Named::Segment(segment)) = Named::parse(file) else {
            return Err(NoPlace::Form);
        };
        let offset: u64 = offset.parse().map_err(|_| NoPlace::Form)?;
        let is_number = (1..COUNT_MAX).contains(&segment);
        match is_number && offset.is_multiple_of(BLOCK as u64) {
            true => Ok(Self { segment, offset }),
            false if is_number => Err(NoPlace::Offset),
            false => Err(NoPlace::Form),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_as_it_is_written() {
        let place = Place {
            segment: 0x2a,
            offset: 8192,
        };
        assert_eq!(place.to_string(), "log/000000000000002a.log:8192");
        assert_eq!(place.to_string().parse(), Ok(place));
        assert_eq!("000000000000002a.log:8192".parse(), Ok(place));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "2:8192",
            "log/2.log:0",
            "log/spare-1:0",
            "000000000000002a.log",
        ] {
            assert_eq!(text.parse::<Place>(), Err(NoPlace::Form), "{text}");
        }
        let zero = "log/0000000000000000.log:0";
        assert_eq!(zero.parse::<Place>(), Err(NoPlace::Form));
        let between = "log/0000000000000002.log:8000";
        assert_eq!(between.parse::<Place>(), Err(NoPlace::Offset));
    }
}
