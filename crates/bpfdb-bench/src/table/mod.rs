//! Tables: chains of reads in the kernel, against the same reads by a process, with O_DIRECT.
//!
//! ```text
//! made.rs     the tables that are asked
//! lookups.rs  look-ups by key: one, and many at the same time
//! uring.rs    the same by a process with io_uring
//! ranges.rs   sums of ranges
//! pool/       look-ups with less memory than the table has bytes, beside vmcache
//! ```

mod lookups;
mod made;
mod pool;
mod ranges;
mod uring;

use std::path::Path;

use anyhow::Result;

use crate::durability::Place;
use crate::plan::{Part, Plan};
use crate::report::Table;

/// `only`: these parts, all if there is none; `folder`: where files go.
pub(crate) fn measure(plan: &Plan, only: &[Part], folder: Option<&Path>) -> Result<Vec<Table>> {
    let place = Place::new(folder, plan.quick)?;
    let parts = Part::chosen(&Part::TABLES, only);
    let mut tables = Vec::new();
    if parts.contains(&Part::Lookups) {
        tables.extend(lookups::measure(plan, &place)?);
    }
    if parts.contains(&Part::Ranges) {
        tables.push(ranges::measure(plan, &place)?);
    }
    if parts.contains(&Part::Pool) {
        tables.extend(pool::measure(plan, &place)?);
    }
    Ok(tables)
}
