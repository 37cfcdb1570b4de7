//! The order of elements, as bytes. In a sorted set: those of the score, the highest first, and the member. In a
//! stream: the key, which is an identifier with its highest byte first.

use super::Shape;
use crate::limits::Kind;
use crate::run::{self, Malformed};

/// What the order of a member is compared by.
pub(super) fn order(sortable: u64, member: &[u8]) -> Vec<u8> {
    [&sortable.to_be_bytes()[..], member].concat()
}

impl Shape {
    /// Of an entry of a leaf; `None`: elements are where they were put, and have no order of their own.
    pub(super) fn order_of(self, entry: (&[u8], &[u8])) -> Result<Option<Vec<u8>>, Malformed> {
        match self {
            Self::Collection(Kind::SortedSet) => order_of(entry).map(Some),
            Self::Collection(_) => Ok(None),
            Self::Stream => Ok(Some(entry.0.to_vec())),
        }
    }
}

/// Of a member of a sorted set.
pub(super) fn order_of((member, value): (&[u8], &[u8])) -> Result<Vec<u8>, Malformed> {
    Ok(order(sortable_of(value)?, member))
}

/// The score that is the value of an entry, as a number that is ordered as scores are.
pub(super) fn sortable_of(value: &[u8]) -> Result<u64, Malformed> {
    stored_of(value).map(run::order_of)
}

/// The score that is the value of an entry.
pub(super) fn stored_of(value: &[u8]) -> Result<u64, Malformed> {
    let bytes = value.try_into();
    bytes.map(u64::from_le_bytes).map_err(|_| Malformed::SCORE)
}
