//! Tables: chains of reads in the kernel, against the same reads by a process, with O_DIRECT.
//!
//! ```text
//! made.rs     the tables that are asked
//! lookups.rs  look-ups by key: one, and many at the same time
//! uring.rs    the same by a process with io_uring
//! ranges.rs   sums of ranges
//! ```

mod lookups;
mod made;
mod ranges;
mod uring;

use std::path::Path;

use anyhow::Result;

use crate::durability::Place;
use crate::plan::Plan;
use crate::report::Table;

pub(crate) fn measure(plan: &Plan, folder: Option<&Path>) -> Result<Vec<Table>> {
    let place = Place::new(folder, plan.quick)?;
    let mut tables = lookups::measure(plan, &place)?;
    tables.push(ranges::measure(plan, &place)?);
    Ok(tables)
}
