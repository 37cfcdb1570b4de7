//! Operations of a transaction whose outcome is not needed yet: they wait in the
//! session's buffer and are sent with the next one that has a result.
//!
//! ```text
//!  begin_deferred   set_deferred   set_deferred   get          set_deferred   commit
//!      └────────────┴───────────┴────────►│ one call      └─────────►│ one call
//! ```
//!
//! Invariants
//!  1. What waits is a prefix of the batch in the buffer: the next operation goes
//!     behind it, and sends it.
//!  2. Each of them stops the batch if it ends in an Error, so nothing is executed
//!     behind a BEGIN or a SET that failed. The call that sends it gets that Error.
//!  3. Where BEGIN failed nothing is executed until the transaction is ended: it
//!     would be without one.

use super::operation::Place;
use crate::Status;

/// What waits in the buffer of a session.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    places: Vec<Place>,
    /// The state that the session will have when a waiting BEGIN is executed.
    begins: Option<u32>,
    /// Writes may wait: a transaction that will be ended by one call of
    /// `commit` or `rollback` is open, or about to be.
    open: bool,
    /// Why BEGIN failed.
    refused: Option<Status>,
}

impl Deferred {
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    pub(super) fn open(&mut self, begins: u32) {
        self.open = true;
        self.begins = Some(begins);
    }

    /// The same, of a transaction that has begun.
    pub(super) fn reopen(&mut self) {
        self.open = true;
    }

    pub(super) fn begins(&self) -> Option<u32> {
        self.begins
    }

    /// Where the next request goes.
    pub(super) fn end(&self) -> usize {
        self.places.last().map_or(0, Place::end)
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn last(&self) -> Option<Place> {
        self.places.last().copied()
    }

    pub(super) fn push(&mut self, place: Place) {
        self.places.push(place);
    }

    /// It was sent: the first Error, as `status` gives them.
    pub(super) fn sent(&mut self, status: impl Fn(Place) -> Status) -> Result<(), Status> {
        let begins = self.begins.take().is_some();
        let statuses = self.places.drain(..).map(status);
        let failed = statuses.enumerate().find(|(_, status)| status.is_error());
        match failed {
            None => Ok(()),
            Some((place, status)) => {
                if begins && place == 0 {
                    self.refused = Some(status);
                }
                Err(status)
            }
        }
    }

    pub(super) fn refused(&self) -> Result<(), Status> {
        self.refused.map_or(Ok(()), Err)
    }

    /// The transaction ends: true if the engine knows of it.
    pub(super) fn close(&mut self) -> bool {
        self.open = false;
        self.begins.is_none() && self.refused.is_none()
    }

    /// Nothing of it will be sent.
    pub(super) fn forget(&mut self) {
        self.places.clear();
        *self = Self {
            places: std::mem::take(&mut self.places),
            ..Self::default()
        };
    }
}
