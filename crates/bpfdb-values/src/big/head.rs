//! The head of a large collection: the value at its key.
//!
//! ```text
//! offset  bytes  the header of a run
//!      0      4  zero: it has no entries of its own
//!      4      4  56: bytes behind the header
//!      8      4  bytes of the longest key or value that was ever in the collection
//!     12      1  flags: 1 WIDE and 8 BIG, both always; 2 NOT_INTEGERS, 4 NOT_COMPACT
//!     13      3  zero
//!                the rest
//!     16      8  identity
//!     24      8  elements
//!     32      8  bytes of their keys and values
//!     40     16  secret of the hash
//!     56      8  buckets of the table; of a list 0
//!     64      8  number of the next page of the tree
//! ```
//!
//! BIG comes with WIDE because kernel programs leave runs that are WIDE to user space; to
//! [`Run::parse`](crate::run::Run::parse) BIG is an unknown flag.

use crate::run::{BIG, HEADER, History, Malformed, NOT_COMPACT, NOT_INTEGERS, WIDE};

/// Bytes of a head.
pub const LEN: usize = 72;

/// What is known of a large collection without its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Names its pages. No two collections have the same at one moment.
    pub identity: u64,
    pub elements: u64,
    /// Bytes of all keys and values.
    pub bytes: u64,
    /// A client that chooses elements does not know into which buckets they go.
    pub secret: [u64; 2],
    pub buckets: u64,
    pub next_page: u64,
    pub history: History,
}

/// Is this value the head of a large collection?
pub fn is_head(bytes: &[u8]) -> bool {
    bytes.len() == LEN && bytes[12] & BIG != 0
}

impl Head {
    /// Of a collection without elements.
    pub fn new(identity: u64, secret: [u64; 2], history: History) -> Self {
        Self {
            identity,
            elements: 0,
            bytes: 0,
            secret,
            buckets: 0,
            next_page: 0,
            history,
        }
    }

    /// The head with these bytes; `None`: they are those of a run.
    ///
    /// # Errors
    /// A head that is damaged.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        if !is_head(bytes) {
            return Ok(None);
        }
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let flags = bytes[12];
        let is_sound = bytes[0..4] == [0; 4]
            && bytes[4..8] == ((LEN - HEADER) as u32).to_le_bytes()
            && flags & !(NOT_INTEGERS | NOT_COMPACT) == WIDE | BIG
            && bytes[13..16] == [0; 3];
        if !is_sound {
            return Err(Malformed("the head of a large collection"));
        }
        Ok(Some(Self {
            identity: word(16),
            elements: word(24),
            bytes: word(32),
            secret: [word(40), word(48)],
            buckets: word(56),
            next_page: word(64),
            history: History {
                longest: word(8) as u32,
                not_integers: flags & NOT_INTEGERS != 0,
                not_compact: flags & NOT_COMPACT != 0,
            },
        }))
    }

    pub fn to_bytes(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[4..8].copy_from_slice(&((LEN - HEADER) as u32).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.history.longest.to_le_bytes());
        bytes[12] = crate::run::flags(true, self.history) | BIG;
        let words = [
            self.identity,
            self.elements,
            self.bytes,
            self.secret[0],
            self.secret[1],
            self.buckets,
            self.next_page,
        ];
        for (place, word) in bytes[HEADER..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let history = History {
            longest: 300,
            not_integers: true,
            not_compact: false,
        };
        let head = Head {
            elements: 5,
            bytes: 6,
            buckets: 7,
            next_page: 8,
            ..Head::new(1, [2, 3], history)
        };
        let bytes = head.to_bytes();
        assert_eq!(Head::parse(&bytes), Ok(Some(head)));
        assert_eq!(
            bytes[..HEADER],
            [0, 0, 0, 0, 56, 0, 0, 0, 44, 1, 0, 0, 11, 0, 0, 0]
        );
        assert!(Run::parse(&bytes).is_err());
        for at in [0, 4, 13] {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert!(Head::parse(&damaged).is_err(), "{at}");
        }
        assert_eq!(Head::parse(&bytes[1..]), Ok(None));
    }
}
