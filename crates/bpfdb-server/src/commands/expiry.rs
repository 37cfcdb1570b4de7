//! When a value expires, as arguments say it.

use super::arguments::number;
use super::{Context, Failure};

/// What a time counts, and from when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    milliseconds: i64,
    from_now: bool,
}

impl Form {
    pub(super) const EX: Self = Self::new(1000, true);
    pub(super) const PX: Self = Self::new(1, true);
    pub(super) const EXAT: Self = Self::new(1000, false);
    pub(super) const PXAT: Self = Self::new(1, false);

    const fn new(milliseconds: i64, from_now: bool) -> Self {
        Self {
            milliseconds,
            from_now,
        }
    }

    /// As an option of SET and GETEX, in small letters.
    pub(super) fn parse(option: &[u8]) -> Option<Self> {
        match option {
            b"ex" => Some(Self::EX),
            b"px" => Some(Self::PX),
            b"exat" => Some(Self::EXAT),
            b"pxat" => Some(Self::PXAT),
            _ => None,
        }
    }

    /// UNIX time, milliseconds; `None` if that is no 64-bit number.
    fn at(self, value: i64, now: u64) -> Option<i64> {
        let start = if self.from_now { now as i64 } else { 0 };
        value.checked_mul(self.milliseconds)?.checked_add(start)
    }

    /// The time that a command gives to a value: it must be positive.
    pub(super) fn deadline(
        self,
        context: &Context<'_>,
        command: &str,
        text: &[u8],
    ) -> Result<u64, Failure> {
        let value = number(text)?;
        self.at(value, context.engine.now_ms())
            .filter(|_| value > 0)
            .and_then(|deadline| u64::try_from(deadline).ok())
            .ok_or_else(|| invalid(command))
    }

    /// The same where a time may be over, and be negative.
    pub(super) fn any_deadline(
        self,
        context: &Context<'_>,
        command: &str,
        value: i64,
    ) -> Result<i64, Failure> {
        self.at(value, context.engine.now_ms())
            .ok_or_else(|| invalid(command))
    }
}

fn invalid(command: &str) -> Failure {
    format!("ERR invalid expire time in '{command}' command").into()
}

#[cfg(test)]
mod tests {
    use super::Form;

    #[test]
    fn times() {
        assert_eq!(Form::EX.at(2, 5), Some(2005));
        assert_eq!(Form::PX.at(-7, 5), Some(-2));
        assert_eq!(Form::EXAT.at(2, 5), Some(2000));
        assert_eq!(Form::PXAT.at(i64::MAX, 5), Some(i64::MAX));
        assert_eq!(Form::PX.at(i64::MAX, 5), None);
        assert_eq!(Form::EXAT.at(i64::MAX / 1000 + 1, 5), None);
        assert_eq!(Form::EXAT.at(i64::MIN / 1000 - 1, 5), None);
    }
}
