//! Columns of tables that show what writers have seen.

use crate::durability::Samples;
use crate::report::Cell;

/// Of [`cells`].
pub(super) const COLUMNS: [&str; 5] = [
    "SETs, thousands a second",
    "p50, µs",
    "p99, µs",
    "p99.9, µs",
    "worst, µs",
];

pub(super) fn cells(seen: &Samples) -> [Cell; 5] {
    [
        Cell::figure(&seen.per_second.map(|rate| rate / 1e3), 1),
        Cell::figure(&seen.p50, 1),
        Cell::figure(&seen.p99, 1),
        Cell::figure(&seen.p999, 1),
        Cell::figure(&seen.worst, 0),
    ]
}
