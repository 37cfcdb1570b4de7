//! SORT and SORT_RO.
//!
//! ```text
//! options.rs   what the arguments say
//! pattern.rs   keys that are made of a pattern and an element
//! order.rs     what elements are sorted by
//! ```

mod options;
mod order;
mod pattern;

use std::borrow::Cow;

use bpfdb::{Session, ValueType};
use bpfdb_values::list::{End, List};
use bpfdb_values::run::{Malformed, NARROW_ENTRY, Run};
use bpfdb_values::sorted_set::SortedSet;

use super::super::atomic::{Kind, atomically};
use super::super::collection::{check_len, check_reply, load_any, put};
use super::super::definition::OfOption;
use super::super::prelude::*;
use crate::protocol::reply::Replies;
use options::Options;
pub(super) use options::target_of;
use order::sorted;

/// Keys that depend on what is sorted.
pub(super) const BY_OR_GET: Keys = Keys::of_option(
    OfOption::Unknown(|_| None),
    &[KeyFlag::ReadOnly, KeyFlag::Access],
)
.notes(NOTES);

/// Of Redis.
const NOTES: &str = "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort";

const SORTABLE: [ValueType; 3] = [ValueType::LIST, ValueType::SET, ValueType::SORTED_SET];

pub(super) fn sort(context: &mut Context<'_>, arguments: &[Vec<u8>], may_store: bool) -> Outcome {
    let options = Options::parse(&arguments[1..], may_store)?;
    // As in Redis, what is kept, or decides what a script does, is in some order.
    let is_kept = options.target.is_some() || context.is_of_script;
    let sorting = Sorting {
        key: &arguments[0],
        options,
        is_kept,
    };
    match sorting.options.target {
        Some(target) => sorting.store(context, target),
        None => sorting.reply(context),
    }
}

struct Sorting<'a> {
    key: &'a [u8],
    options: Options<'a>,
    is_kept: bool,
}

impl Sorting<'_> {
    fn reply(&self, context: &mut Context<'_>) -> Outcome {
        let replies = &mut *context.replies;
        let start = replies.len();
        let outcome = atomically(context.session, Kind::Read, |session| {
            // After a conflict it begins anew.
            replies.truncate(start);
            self.with_elements(session, |session, elements| {
                self.reply_elements(session, replies, elements)
            })
        });
        outcome.inspect_err(|_| replies.truncate(start))
    }

    fn reply_elements(
        &self,
        session: &mut Session,
        replies: &mut Replies,
        elements: &[&[u8]],
    ) -> Outcome {
        let start = replies.len();
        replies.array(elements.len() * self.options.gets.len().max(1));
        for element in elements {
            if self.options.gets.is_empty() {
                replies.bulk(element);
            }
            for pattern in &self.options.gets {
                let value = pattern.read(session, element)?;
                replies.bulk_or_null(value.as_deref());
                check_reply(replies, start)?;
            }
            check_reply(replies, start)?;
        }
        Ok(())
    }

    fn store(&self, context: &mut Context<'_>, target: &[u8]) -> Outcome {
        let stored = atomically(context.session, Kind::Write, |session| {
            // It may be read as well: no lock becomes a stronger one.
            session.without_misses(|session| session.head_for_update(target))?;
            self.with_elements(session, |session, elements| {
                self.store_elements(session, target, elements)
            })
        })?;
        context.replies.integer(stored as i64);
        Ok(())
    }

    fn store_elements(
        &self,
        session: &mut Session,
        target: &[u8],
        elements: &[&[u8]],
    ) -> Result<usize, Failure> {
        let mut list: Vec<Cow<'_, [u8]>> = Vec::new();
        let mut bytes = 0;
        for element in elements {
            if self.options.gets.is_empty() {
                list.push(Cow::Borrowed(element));
                continue;
            }
            for pattern in &self.options.gets {
                let value = pattern.read(session, element)?.unwrap_or_default();
                bytes += value.len() + NARROW_ENTRY;
                check_len(bytes)?;
                list.push(value);
            }
        }
        let run = match &list[..] {
            [] => None,
            list => Some(List::empty().push(End::Tail, list)?),
        };
        put(session, target, ValueType::LIST, run.as_deref(), None)?;
        Ok(list.len())
    }

    /// Shows the elements that are asked for to `work`, in their order.
    fn with_elements<T>(
        &self,
        session: &mut Session,
        work: impl FnOnce(&mut Session, &[&[u8]]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Some((kind, entry)) = load_any(session, self.key, &SORTABLE)? else {
            return work(session, &[]);
        };
        let elements = elements(kind, &entry.value)?;
        let elements = self.arranged(session, kind, elements)?;
        work(session, &elements[self.options.range(elements.len())])
    }

    fn arranged<'e>(
        &self,
        session: &mut Session,
        kind: ValueType,
        mut elements: Vec<&'e [u8]>,
    ) -> Result<Vec<&'e [u8]>, Failure> {
        let options = &self.options;
        let (is_descending, alpha) = (options.is_descending, options.alpha);
        if !options.stays {
            return sorted(session, elements, options.by.as_ref(), is_descending, alpha);
        }
        // A set has no order that could stay.
        if kind == ValueType::SET {
            return if self.is_kept {
                sorted(session, elements, None, is_descending, true)
            } else {
                Ok(elements)
            };
        }
        if is_descending {
            elements.reverse();
        }
        Ok(elements)
    }
}

/// The elements of a collection in its own order.
fn elements(kind: ValueType, bytes: &[u8]) -> Result<Vec<&[u8]>, Malformed> {
    if kind == ValueType::SORTED_SET {
        let set = SortedSet::read(bytes)?;
        return Ok(set.entries().iter().map(|entry| entry.member).collect());
    }
    let entries = Run::parse(bytes)?.iter();
    entries
        .map(|entry| entry.map(|(element, _)| element))
        .collect()
}
