//! SORT and SORT_RO.
//!
//! ```text
//! options.rs   what the arguments say
//! pattern.rs   keys that are made of a pattern and an element
//! order.rs     what elements are sorted by, and their order
//! stages.rs    one after the other, in slices: elements, their order, what is replied of them
//! ```

mod options;
mod order;
mod pattern;
mod stages;

use bpfdb::{Session, ValueType};
use bpfdb_values::big;

use super::super::atomic::is_open;
use super::super::definition::OfOption;
use super::super::in_slices::{InSlices, Work};
use super::super::prelude::*;
use options::Options;
pub(super) use options::target_of;
use stages::Sorting;

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
    let stores = options.target.is_some();
    let mut sorting = Sorting::new(
        context.replies.protocol(),
        stores,
        // As in Redis, what is kept, or decides what a script does, is in some order.
        stores || context.is_of_script,
    );
    if let Some(target) = options.target
        && is_open(context.session)
    {
        // It may be the key that is sorted: no lock becomes a stronger one.
        context
            .session
            .without_misses(|session| session.head_for_update(target))?;
    }
    if has_few(context.session, &arguments[0])? {
        sorting.at_once(context.session, arguments)?;
        sorting.reply(context);
    } else {
        let job = InSlices::new(context.session, sorting);
        context.go_on_with(job);
    }
    Ok(())
}

/// Elements, and bytes of a run, that are sorted at once.
const FEW: u64 = 256;
const FEW_BYTES: usize = 8 * 1024;

fn has_few(session: &mut Session, key: &[u8]) -> Result<bool, Failure> {
    let Some(head) = session.without_misses(|session| session.head(key))? else {
        return Ok(true);
    };
    let Some(value) = head.value else {
        return Ok(false);
    };
    Ok(match big::Head::parse(&value)? {
        Some(head) => head.elements <= FEW,
        None => value.len() <= FEW_BYTES,
    })
}
