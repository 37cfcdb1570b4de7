//! Questions that take more than a moment, which are answered in slices; and whom and what clients are told of.

use bpfdb_table::{Aggregate, Aggregation, Answered, Bounds, Error, Field, Source};

use super::question::{Answer, AnsweredBy, Outcome, Ticket, What};
use crate::protocol::reply::Replies;

/// Bytes of leaves that are looked at for an aggregate before others have their turn: some milliseconds.
const SLICE: usize = 1 << 20;
/// The same of a range: bytes of its reply.
const RANGE_SLICE: usize = 1 << 20;
/// Entries, and bytes of the reply, of a range.
pub(crate) const ENTRIES_MAX: usize = 10_000;
const REPLY_MAX: usize = 8 << 20;

/// A question that takes more than a moment.
#[derive(Debug)]
pub(super) enum Long {
    Range(Box<Range>),
    Aggregate(Box<Sum>),
}

#[derive(Debug)]
pub(super) struct Range {
    ticket: Ticket,
    /// The key to go on from.
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    /// `None`: all, which must not be more than there may be.
    limit: Option<usize>,
    entries: usize,
    /// Of these, without the length before them.
    replies: Replies,
    is_by_process: bool,
}

#[derive(Debug)]
pub(super) struct Sum {
    ticket: Ticket,
    aggregation: Aggregation,
    what: What,
    has_field: bool,
    is_by_process: bool,
}

impl Long {
    pub(super) fn range(ticket: Ticket, from: &[u8], to: &[u8], limit: Option<usize>) -> Self {
        let bounds = Bounds::between(from, to);
        let replies = Replies::new(ticket.protocol());
        Self::Range(Box::new(Range {
            ticket,
            from: bounds.from.to_vec(),
            to: bounds.to.map(<[u8]>::to_vec),
            limit,
            entries: 0,
            replies,
            is_by_process: false,
        }))
    }

    pub(super) fn aggregate(
        ticket: Ticket,
        from: &[u8],
        to: &[u8],
        what: What,
        field: Option<Field>,
    ) -> Self {
        Self::Aggregate(Box::new(Sum {
            ticket,
            aggregation: Aggregation::new(&Bounds::between(from, to), field),
            what,
            has_field: field.is_some(),
            is_by_process: false,
        }))
    }

    pub(super) fn ticket(&self) -> &Ticket {
        match self {
            Self::Range(range) => &range.ticket,
            Self::Aggregate(sum) => &sum.ticket,
        }
    }

    pub(super) fn into_ticket(self) -> Ticket {
        match self {
            Self::Range(range) => range.ticket,
            Self::Aggregate(sum) => sum.ticket,
        }
    }

    /// One slice; `None`: it goes on.
    pub(super) fn advance(&mut self, source: &mut Source<'_>) -> Option<Outcome> {
        let before = source.answered();
        let (outcome, is_by_process) = match self {
            Self::Range(range) => (range.advance(source), &mut range.is_by_process),
            Self::Aggregate(sum) => (sum.advance(source), &mut sum.is_by_process),
        };
        *is_by_process |= who(before, source.answered()) == AnsweredBy::Process;
        let by = match *is_by_process {
            true => AnsweredBy::Process,
            false => AnsweredBy::Kernel,
        };
        let outcome = outcome.transpose()?;
        Some(outcome.map(|reply| Answer { reply, by }))
    }
}

impl Range {
    /// The whole reply, once there is no more.
    fn advance(&mut self, source: &mut Source<'_>) -> Result<Option<Vec<u8>>, Vec<u8>> {
        let most = self.limit.unwrap_or(ENTRIES_MAX);
        let begin = self.replies.len();
        let (mut last, mut is_sliced, mut is_too_much) = (None, false, false);
        let Self {
            replies, entries, ..
        } = self;
        let bounds = Bounds {
            from: &self.from,
            to: self.to.as_deref(),
        };
        let mut each = |key: &[u8], value: &[u8]| {
            if *entries == most {
                is_too_much = true;
                return false;
            }
            *entries += 1;
            replies.array(2);
            replies.bulk(key);
            replies.bulk(value);
            last = Some(key.to_vec());
            is_sliced = replies.len() - begin >= RANGE_SLICE;
            !is_sliced
        };
        source
            .scan(&bounds, &mut each)
            .map_err(|error| told(&error))?;
        if is_too_much && self.limit.is_none() {
            return Err(format!(
                "ERR the range has more than {ENTRIES_MAX} entries: say LIMIT, and go on behind the last key"
            )
            .into_bytes());
        }
        if self.replies.len() > REPLY_MAX {
            let most = REPLY_MAX >> 20;
            return Err(
                format!("ERR the reply has more than {most} MiB: say a lower LIMIT").into_bytes(),
            );
        }
        if let Some(mut last) = last.filter(|_| is_sliced) {
            // The least key behind it.
            last.push(0);
            self.from = last;
            return Ok(None);
        }
        let mut whole = Replies::new(self.ticket.protocol());
        whole.array(self.entries);
        whole.absorb(&mut self.replies);
        Ok(Some(whole.take()))
    }
}

impl Sum {
    fn advance(&mut self, source: &mut Source<'_>) -> Result<Option<Vec<u8>>, Vec<u8>> {
        let found = source.advance(&mut self.aggregation, SLICE);
        let found = found.map_err(|error| told(&error))?;
        Ok(found.map(|found| self.reply(&found)))
    }

    fn reply(&self, found: &Aggregate) -> Vec<u8> {
        let mut replies = Replies::new(self.ticket.protocol());
        let number = match self.what {
            What::Count => {
                let count = match self.has_field {
                    true => found.fields,
                    false => found.entries,
                };
                replies.integer(i64::try_from(count).unwrap_or(i64::MAX));
                return replies.take();
            }
            What::Sum => Some(found.sum),
            What::Least => found.least,
            What::Greatest => found.greatest,
        };
        let text = number.map(|number| number.to_string());
        replies.bulk_or_null(text.as_ref().map(String::as_bytes));
        replies.take()
    }
}

/// Who has answered what was asked between the two.
pub(super) fn who(before: Answered, after: Answered) -> AnsweredBy {
    if after.by_process > before.by_process {
        AnsweredBy::Process
    } else if after.by_kernel > before.by_kernel {
        AnsweredBy::Kernel
    } else {
        AnsweredBy::Pool
    }
}

/// What a client is told of an error.
pub(super) fn told(error: &Error) -> Vec<u8> {
    let word = match error {
        Error::Damaged { .. } => "TABLE_DAMAGED",
        Error::Io { .. } => "TABLE_UNAVAILABLE",
        _ => "ERR",
    };
    format!("{word} {error}").into_bytes()
}
