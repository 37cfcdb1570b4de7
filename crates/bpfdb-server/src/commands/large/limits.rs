//! When a collection becomes large: where the kernel leaves its run to user space anyway, and a change would copy
//! more bytes than it takes to find a page.

use std::sync::LazyLock;

use bpfdb::Session;
use bpfdb_values::big::Shape;
use bpfdb_values::run::Run;

/// Elements of the longest run.
const ENTRIES: usize = 1024;
/// Its bytes.
const BYTES: usize = 16 * 1024;

/// Bytes of a collection that is made in the transaction of its client, at most. One with more is written before,
/// by transactions of its own.
pub(super) const STORED_MAX: usize = 512 * 1024;
/// Bytes of pages that a command changes in the transaction of its client, at most. One that changes more writes the
/// collection anew.
const CHANGED_MAX: usize = 4 * 1024 * 1024;

/// Bytes of pages that a command may write in the transaction of its client: a transaction has a part of the log's
/// ring, and a command has half of what is left of it, so that there is some for those that follow.
pub(in super::super) fn may_write(session: &Session) -> usize {
    let room = session.log_room().unwrap_or(u64::MAX);
    usize::try_from(room / 2).map_or(CHANGED_MAX, |half| half.min(CHANGED_MAX))
}

/// Tests make collections large that have few elements: elements of the longest run, of which each has 16 bytes.
const FOR_TESTS: &str = "BPFDB_TEST_RUN_ENTRIES";

/// Elements and bytes.
static LIMITS: LazyLock<(usize, usize)> = LazyLock::new(|| {
    let entries = std::env::var(FOR_TESTS).ok();
    match entries.and_then(|entries| entries.parse().ok()) {
        Some(entries) => (entries, entries * 16),
        None => (ENTRIES, BYTES),
    }
});

/// Does a collection with this run become large, or a stream of these bytes?
pub(in super::super) fn is_to_be_large(shape: Shape, value: &[u8]) -> bool {
    let (entries, bytes) = *LIMITS;
    value.len() > bytes
        || shape != Shape::Stream && Run::parse(value).is_ok_and(|run| run.len() > entries)
}
