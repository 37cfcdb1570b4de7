//! Open files: each connection is one, and the log must find one when it needs it.

use std::fs;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

/// Kept for files that are opened while the server runs: those of the log and of checkpoints,
/// compiled procedures, tables, connections that ask for metrics. Of a low limit a quarter.
const RESERVED: u64 = 768;

/// Has the process as many as the system allows it.
pub(crate) fn raise_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

/// Clients that there are descriptors for, besides what the process has open already.
pub(crate) fn clients_max() -> u32 {
    let limit = match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((RLIM_INFINITY, _)) | Err(_) => return u32::MAX,
        Ok((limit, _)) => limit,
    };
    let open = fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64);
    clients_of(limit, open)
}

fn clients_of(limit: u64, open: u64) -> u32 {
    let others = open.saturating_add(RESERVED.min(limit / 4));
    u32::try_from(limit.saturating_sub(others)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_left_for_others() {
        assert_eq!(clients_of(20_000, 100), 20_000 - 100 - 768);
        assert_eq!(clients_of(1024, 100), 1024 - 100 - 256);
        assert_eq!(clients_of(100, 100), 0);
        assert_eq!(clients_of(u64::MAX, 100), u32::MAX);
    }
}
