//! Scores in arguments and in replies.

use std::ops::Bound;

use bpfdb_values::double;
use bpfdb_values::sorted_set::{Entry, LexEnd, LexRange, Members, ScoreRange};

use super::super::arguments::number;
use super::super::collection::check_reply;
use super::super::{Failure, Outcome};
use crate::protocol::reply::{Protocol, Replies};

pub(super) fn score(text: &[u8]) -> Result<f64, Failure> {
    double::parse(text).ok_or_else(|| "ERR value is not a valid float".into())
}

/// What the two ends of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Lex,
}

impl By {
    /// The members between two ends.
    pub(super) fn members<'a>(self, min: &'a [u8], max: &'a [u8]) -> Result<Members<'a>, Failure> {
        match self {
            Self::Rank => Ok(Members::Ranks(number(min)?, number(max)?)),
            Self::Score => {
                let ends = score_end(min).zip(score_end(max));
                let (min, max) = ends.ok_or("ERR min or max is not a float")?;
                Ok(Members::Scores(ScoreRange { min, max }))
            }
            Self::Lex => {
                let ends = lex_end(min).zip(lex_end(max));
                let (min, max) = ends.ok_or("ERR min or max not valid string range item")?;
                Ok(Members::Lex(LexRange { min, max }))
            }
        }
    }
}

/// A number as strtod() reads a C string: it may have blanks before it, or be empty, and what is out
/// of range is infinite or 0.
fn score_end(text: &[u8]) -> Option<Bound<f64>> {
    let (is_open, text) = match text {
        [b'(', text @ ..] => (true, text),
        text => (false, text),
    };
    let read = double::prefix(text);
    if read.value.is_nan() || !matches!(read.rest, [] | [0, ..]) {
        return None;
    }
    Some(if is_open {
        Bound::Excluded(read.value)
    } else {
        Bound::Included(read.value)
    })
}

fn lex_end(text: &[u8]) -> Option<LexEnd<'_>> {
    match text {
        [b'-'] | [b'-', 0, ..] => Some(LexEnd::BelowAll),
        [b'+'] | [b'+', 0, ..] => Some(LexEnd::AboveAll),
        [b'[', member @ ..] => Some(LexEnd::Included(member)),
        [b'(', member @ ..] => Some(LexEnd::Excluded(member)),
        _ => None,
    }
}

/// A score as a reply.
pub(super) fn reply_score(replies: &mut Replies, score: f64) {
    match double::whole(score, 1e17) {
        Some(whole) => replies.double(itoa::Buffer::new().format(whole)),
        None => replies.double(&double::text(score)),
    }
}

/// Are scores part of the reply, and in arrays of two each with their members?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Members,
    Flat,
    Pairs,
}

impl Form {
    /// Members, with their scores or without: in pairs if the protocol is RESP3.
    pub(super) fn of(replies: &Replies, with_scores: bool) -> Self {
        match (with_scores, replies.protocol()) {
            (false, _) => Self::Members,
            (true, Protocol::Resp2) => Self::Flat,
            (true, Protocol::Resp3) => Self::Pairs,
        }
    }

    /// An array of these entries.
    ///
    /// # Errors
    /// It would be longer than a reply may be; what is written of it is to be taken back.
    pub(super) fn reply<'a>(
        self,
        replies: &mut Replies,
        entries: impl ExactSizeIterator<Item = &'a Entry<'a>>,
    ) -> Outcome {
        let (start, len) = (replies.len(), entries.len());
        replies.array(if self == Self::Flat { 2 * len } else { len });
        for entry in entries {
            self.reply_one(replies, entry);
            check_reply(replies, start)?;
        }
        Ok(())
    }

    pub(super) fn reply_one(self, replies: &mut Replies, entry: &Entry<'_>) {
        if self == Self::Pairs {
            replies.array(2);
        }
        replies.bulk(entry.member);
        if self != Self::Members {
            reply_score(replies, entry.score);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_ranges() {
        assert_eq!(score_end(b"(1.5"), Some(Bound::Excluded(1.5)));
        assert_eq!(score_end(b" 2"), Some(Bound::Included(2.0)));
        assert_eq!(score_end(b""), Some(Bound::Included(0.0)));
        assert_eq!(score_end(b"1e400"), Some(Bound::Included(f64::INFINITY)));
        assert_eq!(score_end(b"1\0x"), Some(Bound::Included(1.0)));
        for text in ["nan", "a", "((1", "1 "] {
            assert_eq!(score_end(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(lex_end(b"["), Some(LexEnd::Included(b"")));
        assert_eq!(lex_end(b"-a"), None);
        assert_eq!(lex_end(b""), None);
    }

    #[test]
    fn scores_in_replies() {
        for (score, text, compact) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (-7.0, "-7", "-7"),
            (3.5, "3.5", "3.5"),
            (1e16, "10000000000000000", "10000000000000000"),
            (1e17, "1e+17", "100000000000000000"),
            (1e22, "1e+22", "1e+22"),
            (f64::NEG_INFINITY, "-inf", "-inf"),
        ] {
            let mut replies = Replies::new(Protocol::Resp3);
            reply_score(&mut replies, score);
            assert_eq!(replies.take(), format!(",{text}\r\n").into_bytes());
            assert_eq!(double::compact_text(score), compact);
        }
    }
}
