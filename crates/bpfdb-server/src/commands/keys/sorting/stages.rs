//! SORT, one stage after the other, each of which may be interrupted:
//!
//! ```text
//!  load ─► keys: what each element is sorted by ─► order: runs, merged two by two ─► values ─► reply, or list
//!            └───────────── BY nosort: it stays ──────────────────────────────────────▲
//! ```

use bpfdb::{Session, ValueType};
use bpfdb_values::list::{End, List};
use bpfdb_values::run::{Malformed, NARROW_ENTRY, Run};
use bpfdb_values::sorted_set::SortedSet;

use super::super::super::atomic::{Kind, atomically};
use super::super::super::collection::{check_len, check_reply, load_any, put};
use super::super::super::context::{Context, Failure};
use super::super::super::in_slices::Work;
use super::super::super::time_slice::TimeSlice;
use super::SORTABLE;
use super::options::Options;
use super::order::{Keyed, Keys, Ordering, Place};
use crate::protocol::reply::{Protocol, Replies};

/// What is left to be done.
#[derive(Debug)]
enum Stage {
    Load,
    Keys(Keys),
    Order(Ordering),
    /// What is replied of each of these, or stored: from `next` on.
    Values {
        elements: Vec<Place>,
        next: usize,
    },
    Done,
}

#[derive(Debug)]
pub(super) struct Sorting {
    protocol: Protocol,
    stores: bool,
    /// Elements of a set are in some order that is always the same.
    is_kept: bool,
    /// Of the collection: a run.
    bytes: Vec<u8>,
    stage: Stage,
    /// What is replied, if nothing is stored.
    replies: Replies,
    /// What is stored, and its bytes.
    list: Vec<Vec<u8>>,
    list_bytes: usize,
}

impl Sorting {
    pub(super) fn new(protocol: Protocol, stores: bool, is_kept: bool) -> Self {
        Self {
            protocol,
            stores,
            is_kept,
            bytes: Vec::new(),
            stage: Stage::Load,
            replies: Replies::new(protocol),
            list: Vec::new(),
            list_bytes: 0,
        }
    }

    /// All stages, in the client's transaction or in one of its own.
    pub(super) fn at_once(
        &mut self,
        session: &mut Session,
        words: &[Vec<u8>],
    ) -> Result<(), Failure> {
        let kind = if self.stores { Kind::Write } else { Kind::Read };
        atomically(session, kind, |session| {
            // After a conflict it begins anew.
            self.restart();
            while !self.advance(session, words, TimeSlice::begin())? {}
            Ok(())
        })
    }

    /// Reads the collection.
    fn load(
        &mut self,
        session: &mut Session,
        key: &[u8],
        options: &Options<'_>,
    ) -> Result<Stage, Failure> {
        if let Some(target) = options.target {
            // It may be read as well: no lock becomes a stronger one.
            session.without_misses(|session| session.head_for_update(target))?;
        }
        let Some((kind, entry)) = load_any(session, key, &SORTABLE)? else {
            return Ok(self.values(options, Vec::new()));
        };
        self.bytes = entry.value;
        let mut elements = elements(kind, &self.bytes)?;
        if !options.stays {
            return Ok(Stage::Keys(Keys::new(elements)));
        }
        // A set has no order that could stay.
        if kind == ValueType::SET {
            return Ok(if self.is_kept {
                Stage::Order(Ordering::new(
                    elements.into_iter().map(Keyed::alone).collect(),
                ))
            } else {
                self.values(options, elements)
            });
        }
        if options.is_descending {
            elements.reverse();
        }
        Ok(self.values(options, elements))
    }

    /// The elements that are asked for.
    fn values(&mut self, options: &Options<'_>, mut elements: Vec<Place>) -> Stage {
        let range = options.range(elements.len());
        elements.truncate(range.end);
        elements.drain(..range.start);
        if !self.stores {
            self.replies
                .array(elements.len() * options.gets.len().max(1));
        }
        Stage::Values { elements, next: 0 }
    }

    /// What there is of one element.
    fn value(
        &mut self,
        session: &mut Session,
        options: &Options<'_>,
        element: Place,
    ) -> Result<(), Failure> {
        let text = element.text(&self.bytes);
        let own = options.gets.is_empty().then_some(text);
        let mut values = Vec::new();
        for pattern in &options.gets {
            values.push(pattern.read(session, text)?);
        }
        if !self.stores {
            own.into_iter().for_each(|own| self.replies.bulk(own));
            for value in values {
                self.replies.bulk_or_null(value.as_deref());
                check_reply(&self.replies, 0)?;
            }
            return check_reply(&self.replies, 0);
        }
        let texts = values.into_iter().map(|value| value.unwrap_or_default());
        for text in own.map(Into::into).into_iter().chain(texts) {
            self.list_bytes += text.len() + NARROW_ENTRY;
            check_len(self.list_bytes)?;
            self.list.push(text.into_owned());
        }
        Ok(())
    }

    fn store(&mut self, session: &mut Session, target: &[u8]) -> Result<(), Failure> {
        let run = match &self.list[..] {
            [] => None,
            list => Some(List::empty().push(End::Tail, list)?),
        };
        put(session, target, ValueType::LIST, run.as_deref(), None)
    }

    /// Goes on with a stage; the next one, if that is over.
    fn go_on(
        &mut self,
        session: &mut Session,
        words: &[Vec<u8>],
        slice: TimeSlice,
    ) -> Result<Option<Stage>, Failure> {
        let options = Options::parse(&words[1..], self.stores)?;
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Load => self.load(session, &words[0], &options).map(Some),
            Stage::Keys(mut keys) => {
                if keys.read(session, &self.bytes, &options, slice)? {
                    return Ok(Some(Stage::Order(Ordering::new(keys.keyed))));
                }
                self.stage = Stage::Keys(keys);
                Ok(None)
            }
            Stage::Order(mut ordering) => {
                let is_descending = options.is_descending;
                if let Some(elements) = ordering.advance(&self.bytes, is_descending, slice) {
                    return Ok(Some(self.values(&options, elements)));
                }
                self.stage = Stage::Order(ordering);
                Ok(None)
            }
            Stage::Values { elements, mut next } => {
                while let Some(&element) = elements.get(next) {
                    if slice.is_over() {
                        self.stage = Stage::Values { elements, next };
                        return Ok(None);
                    }
                    self.value(session, &options, element)?;
                    next += 1;
                }
                if let Some(target) = options.target {
                    self.store(session, target)?;
                }
                Ok(Some(Stage::Done))
            }
            Stage::Done => Ok(Some(Stage::Done)),
        }
    }
}

impl Work for Sorting {
    fn writes(&self) -> bool {
        self.stores
    }

    fn advance(
        &mut self,
        session: &mut Session,
        words: &[Vec<u8>],
        slice: TimeSlice,
    ) -> Result<bool, Failure> {
        while let Some(stage) = self.go_on(session, words, slice)? {
            self.stage = stage;
            if matches!(self.stage, Stage::Done) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn restart(&mut self) {
        *self = Self::new(self.protocol, self.stores, self.is_kept);
    }

    fn reply(&mut self, context: &mut Context<'_>) {
        if self.stores {
            context.replies.integer(self.list.len() as i64);
        } else {
            context.replies.absorb(&mut self.replies);
        }
    }

    fn memory(&self) -> usize {
        let stage = match &self.stage {
            Stage::Keys(keys) => keys.memory(),
            Stage::Order(ordering) => ordering.memory(),
            Stage::Values { elements, .. } => size_of_val(&elements[..]),
            Stage::Load | Stage::Done => 0,
        };
        let list = self.list_bytes + size_of_val(&self.list[..]);
        self.bytes.len() + stage + self.replies.len() + list
    }
}

/// The elements of a collection in its own order.
fn elements(kind: ValueType, bytes: &[u8]) -> Result<Vec<Place>, Malformed> {
    let place = |text: &[u8]| Place::of(text, bytes);
    if kind == ValueType::SORTED_SET {
        let set = SortedSet::read(bytes)?;
        return Ok((set.entries().iter())
            .map(|entry| place(entry.member))
            .collect());
    }
    let entries = Run::parse(bytes)?.iter();
    entries
        .map(|entry| entry.map(|(element, _)| place(element)))
        .collect()
}
