//! Keys of bpfdb itself among those of clients ([`bpfdb::is_reserved`]). `Call::check_keys`
//! refuses them by name; commands that look at all keys leave them out.

use bpfdb::{FUNCTIONS_KEY, Session, Stats};

/// Records of clients, as DBSIZE counts them. Locks nothing.
pub(super) fn others(session: &mut Session, stats: &Stats) -> u64 {
    // Of a transaction that has failed nothing is asked; its reply matters to nobody.
    let token = session.watch(FUNCTIONS_KEY);
    let own = token.is_ok_and(|token| token.is_present());
    stats.records.saturating_sub(own.into())
}
