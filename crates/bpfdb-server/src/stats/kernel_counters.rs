//! The kernel's counters since a moment: since the server began, or since
//! CONFIG RESETSTAT. The kernel's counters themselves are never reset; they are as
//! old as the engine.

use bpfdb::commands::KERNEL_COMMANDS;
use bpfdb::{ConflictCause, Stats, abi};

use super::front_end::ERROR_REPLIES;

#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelCounters {
    commands: [u64; KERNEL_COMMANDS.len()],
    failed: [u64; KERNEL_COMMANDS.len()],
    error_replies: [u64; ERROR_REPLIES.len()],
    conflicts: [u64; abi::BPFDB_CONFLICT_COUNT as usize],
    pub(crate) found: u64,
    pub(crate) missed: u64,
    pub(crate) expired: u64,
    pub(crate) evicted: u64,
    /// Bytes of requests that the kernel answered, and of its replies.
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

impl KernelCounters {
    pub(crate) fn of(stats: &Stats) -> Self {
        let redis = stats.counters.redis();
        Self {
            commands: redis.commands,
            failed: redis.commands_failed,
            error_replies: redis.error_replies,
            conflicts: redis.conflicts,
            found: stats.gets_found,
            missed: stats.gets_missed,
            expired: stats.counters.records_expired,
            evicted: stats.counters.records_evicted,
            received: redis.net.bytes_received,
            sent: redis.net.bytes_sent,
        }
    }

    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            commands: less(self.commands, before.commands),
            failed: less(self.failed, before.failed),
            error_replies: less(self.error_replies, before.error_replies),
            conflicts: less(self.conflicts, before.conflicts),
            found: self.found - before.found,
            missed: self.missed - before.missed,
            expired: self.expired - before.expired,
            evicted: self.evicted - before.evicted,
            received: self.received - before.received,
            sent: self.sent - before.sent,
        }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.commands.iter().sum()
    }

    pub(crate) fn errors(&self) -> u64 {
        self.error_replies.iter().sum()
    }

    /// How often the kernel answered a command, and how often with an error.
    pub(crate) fn command(&self, name: &str) -> (u64, u64) {
        let of_it = KERNEL_COMMANDS.iter().find(|known| known.name == name);
        of_it.map_or((0, 0), |known| {
            let number = known.number as usize;
            (self.commands[number], self.failed[number])
        })
    }

    /// Replies CONFLICT of this cause.
    pub(crate) fn conflicts(&self, cause: ConflictCause) -> u64 {
        self.conflicts[cause as usize]
    }

    /// Error replies by their first word.
    pub(crate) fn by_word(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ERROR_REPLIES
            .iter()
            .map(|&(word, number)| (word, self.error_replies[number as usize]))
            .filter(|&(_, count)| count > 0)
    }
}

fn less<const N: usize>(mut after: [u64; N], before: [u64; N]) -> [u64; N] {
    after.iter_mut().zip(before).for_each(|(a, b)| *a -= b);
    after
}
