//! Ranges of keys.

/// Keys from `from` on, and before `to` if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds<'a> {
    pub from: &'a [u8],
    pub to: Option<&'a [u8]>,
}

impl<'a> Bounds<'a> {
    /// As users write a range: `-` and `+` are the ends of the table.
    pub fn between(from: &'a [u8], to: &'a [u8]) -> Self {
        Self {
            from: if from == b"-" { b"" } else { from },
            to: (to != b"+").then_some(to),
        }
    }

    pub(crate) fn is_before_end(&self, key: &[u8]) -> bool {
        self.to.is_none_or(|to| key < to)
    }
}
