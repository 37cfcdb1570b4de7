//! The head of a large collection: the value at its key.
//!
//! ```text
//! offset  bytes  the header of a run
//!      0      4  zero: it has no entries of its own
//!      4      4  bytes behind the header: 56, of a stream 128
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
//!                of a stream
//!     72     64  what is known of its entries: the first 64 bytes of a short one (crate::stream::value)
//!    136      4  bytes of its groups
//!    140      4  zero
//! ```
//!
//! No short stream begins with these 8 bytes: it would have more than 2^37 entries.
//!
//! BIG comes with WIDE because kernel programs leave runs that are WIDE to user space; to
//! [`Run::parse`](crate::run::Run::parse) BIG is an unknown flag.

use crate::run::{BIG, HEADER, History, Malformed, NOT_COMPACT, NOT_INTEGERS, WIDE};
use crate::stream::{State, value};

/// Bytes of a head that is none of a stream.
pub const LEN: usize = 72;
/// Bytes of the head of a stream.
pub const STREAM_LEN: usize = LEN + STREAM;
/// Bytes of what the head of a stream has besides.
const STREAM: usize = STATE + 8;
/// Bytes of what is known of entries.
const STATE: usize = 64;

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
    /// Of a stream; `None`: it is a collection.
    pub stream: Option<StreamHead>,
}

/// What the head of a large stream says besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamHead {
    pub state: State,
    /// Bytes of its groups; 0: there are none, and they have no page.
    pub groups_len: u32,
}

/// Is this value the head of a large collection, or stream? The value is none of a string.
pub fn is_head(bytes: &[u8]) -> bool {
    matches!(bytes.len(), LEN | STREAM_LEN)
        && bytes[..8] == begin_of(bytes.len())
        && bytes[12] & BIG != 0
}

/// The first bytes of a head of so many bytes.
fn begin_of(len: usize) -> [u8; 8] {
    // No entries; bytes behind the header.
    (((len - HEADER) as u64) << 32).to_le_bytes()
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
            stream: None,
        }
    }

    /// Of a stream without blocks.
    pub fn of_stream(identity: u64, stream: StreamHead) -> Self {
        Self {
            stream: Some(stream),
            ..Self::new(identity, [0; 2], History::default())
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
        let is_sound =
            flags & !(NOT_INTEGERS | NOT_COMPACT) == WIDE | BIG && bytes[13..16] == [0; 3];
        if !is_sound {
            return Err(Malformed("the head of a large collection"));
        }
        let stream = match bytes.get(LEN..).filter(|stream| !stream.is_empty()) {
            Some(stream) => Some(StreamHead {
                state: value::read_state(stream)?,
                groups_len: word(LEN + STATE) as u32,
            }),
            None => None,
        };
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
            stream,
        }))
    }

    /// The value at the key: [`LEN`] bytes, or [`STREAM_LEN`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; LEN];
        bytes.reserve_exact(self.stream.map_or(0, |_| STREAM));
        if let Some(stream) = self.stream {
            value::put_state(&mut bytes, &stream.state);
            bytes.extend_from_slice(&u64::from(stream.groups_len).to_le_bytes());
        }
        let begin = begin_of(bytes.len());
        bytes[..8].copy_from_slice(&begin);
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
        for (place, word) in bytes[HEADER..LEN].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;
    use crate::stream::Id;

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
        for (at, expected) in [(0, Ok(None)), (4, Ok(None)), (13, Err(()))] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Head::parse(&damaged).map_err(|_| ()), expected, "{at}");
        }
        assert_eq!(Head::parse(&bytes[1..]), Ok(None));
    }

    #[test]
    fn the_head_of_a_stream_has_its_state() {
        let stream = StreamHead {
            state: State {
                length: 1,
                last: Id::new(2, 3),
                first: Id::new(4, 5),
                max_deleted: Id::new(6, 7),
                added: 8,
            },
            groups_len: 9,
        };
        let bytes = Head::of_stream(10, stream).to_bytes();
        assert_eq!(bytes.len(), STREAM_LEN);
        assert_eq!(bytes[..8], [0, 0, 0, 0, 128, 0, 0, 0]);
        assert_eq!(
            bytes[LEN..LEN + 16],
            [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]
        );
        let head = Head::parse(&bytes).expect("sound").expect("a head");
        assert_eq!((head.identity, head.stream), (10, Some(stream)));
    }

    /// A short stream has the time in the bytes of the flags.
    #[test]
    fn a_short_stream_is_no_head() {
        for length in [0, 1] {
            let state = State {
                length,
                last: Id::new(u64::MAX, 0),
                ..State::default()
            };
            for len in [LEN, STREAM_LEN] {
                let mut bytes = Vec::new();
                value::put_state(&mut bytes, &state);
                bytes.resize(len, 0);
                assert_eq!(Head::parse(&bytes), Ok(None));
            }
        }
    }
}
