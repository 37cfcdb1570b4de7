//! The order of the members of a sorted set, as bytes: those of the score, the highest first, and the member.

use crate::run::{self, Malformed};

/// What the order of a member is compared by.
pub(super) fn order(sortable: u64, member: &[u8]) -> Vec<u8> {
    [&sortable.to_be_bytes()[..], member].concat()
}

/// Of an entry of a leaf.
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
