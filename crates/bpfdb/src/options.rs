//! How large and how configured an engine is. Fixed when it is created.

use std::time::Duration;

use crate::abi;
use crate::error::{Error, Result, bpf};
use crate::random::random;

/// Bytes of one segment, the unit in which memory is added.
pub const SEGMENT_SIZE: u64 = abi::BPFDB_SEGMENT_SIZE as u64;
const PAGES_PER_SEGMENT: u64 = abi::BPFDB_PAGES_PER_SEGMENT as u64;

#[derive(Clone, Debug)]
pub struct Options {
    /// Committed versions that a record may have, 1 to 8. 1: single-version mode.
    pub versions: u32,
    /// Most memory for records and index, bytes; rounded up to whole segments
    /// of 16 MiB, at least two.
    pub memory_limit: u64,
    /// Most that [`crate::Engine::set_memory_limit`] may make of it, bytes; what is less
    /// than `memory_limit` counts as that. It costs about a thousandth of itself.
    pub memory_limit_max: u64,
    /// Memory to keep ready ahead of need, bytes.
    pub memory_ahead: u64,
    /// Sessions of all kinds, connections included.
    pub max_sessions: u32,
    /// Sessions of user space ([`crate::Session`]) of one process at the same time: each
    /// has a buffer of 300 KiB.
    pub user_sessions: u32,
    /// Locks of one transaction.
    pub max_locks: u32,
    /// A transaction idle for longer is rolled back; zero: never.
    pub idle_limit: Duration,
    /// A read-only transaction that began longer ago is ended when a writer would be
    /// refused for it, or memory is short: its next read gets
    /// [`crate::Status::SnapshotTooOld`]. Zero: never.
    /// [`crate::Engine::set_snapshot_max_age`] changes it.
    pub snapshot_max_age: Duration,
    /// TCP port of the Redis front end.
    pub port: u16,
    /// Bytes of each ring of the log, of which every processor has one (64 at most): a power
    /// of two, 1 MiB to 256 MiB. Each transaction may write a quarter of it. 0: the engine
    /// has no log. A process that asks for one must also write it out ([`crate::Log`]): the engine
    /// refuses writes with [`crate::Status::LogFull`] when a ring is full.
    pub log_ring: u32,
    /// Tables whose keys can be scanned in their order ([`crate::OrderedTable`]), up to
    /// `BPFDB_ORDERED_TABLES_MAX`: their numbers are those below this. They cost nothing while they are
    /// empty. A log that has rows of a table is to be recovered into an engine that has it, too.
    pub ordered_tables: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            versions: 4,
            memory_limit: 1 << 30,
            memory_limit_max: 0,
            memory_ahead: 4 * SEGMENT_SIZE,
            max_sessions: 1024,
            user_sessions: 16,
            max_locks: abi::BPFDB_LOCKS_MAX,
            idle_limit: Duration::from_secs(30),
            snapshot_max_age: Duration::from_secs(30),
            port: 0,
            log_ring: 0,
            ordered_tables: 0,
        }
    }
}

/// Segments for so many bytes. Two at least: an index page alone fills one of them while
/// it is split.
pub(crate) fn segments_of(bytes: u64) -> u64 {
    bytes.div_ceil(SEGMENT_SIZE).max(2)
}

/// Rings of a log: one for each processor that this machine can have, as a power of two.
///
/// # Errors
/// The kernel does not say how many processors it can have.
pub fn log_rings() -> Result<u32> {
    let processors = libbpf_rs::num_possible_cpus().map_err(bpf("count the processors"))?;
    let rings = processors.next_power_of_two() as u32;
    Ok(rings.min(abi::BPFDB_LOG_RINGS_MAX))
}

/// Of a new engine: random, and not 0, which is that of an object that has joined none.
fn identity() -> Result<u64> {
    // SAFETY: every pattern of bits is a number.
    Ok(unsafe { random::<u64>() }? | 1)
}

impl Options {
    /// The engine's configuration, or why these options cannot be.
    pub(crate) fn config(&self) -> Result<abi::bpfdb_config> {
        self.check()?;
        let most = self.memory_limit.max(self.memory_limit_max);
        let segments = segments_of(most);
        let pages = segments * PAGES_PER_SEGMENT;

        Ok(abi::bpfdb_config {
            versions: self.versions,
            // Twice as many directory entries as pages: pages are between half
            // and whole full, so their levels differ by one.
            directory_bits: pages.next_power_of_two().ilog2() + 1,
            sessions: self.max_sessions,
            segments_max: segments as u32,
            pages_max: pages as u32,
            locks_max: self.max_locks,
            idle_limit: u64::try_from(self.idle_limit.as_nanos()).unwrap_or(u64::MAX),
            port: u32::from(self.port),
            user_sessions: self.user_sessions,
            log_ring: self.log_ring,
            ordered_tables: self.ordered_tables,
            log_rings: if self.log_ring == 0 { 1 } else { log_rings()? },
            identity: identity()?,
            ..Default::default()
        })
    }

    fn check(&self) -> Result<()> {
        let bounded = |name: &str, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(Error::Invalid(format!(
                "{name} is {value}, must be {least} to {most}"
            )))
        };
        let most_memory = u64::from(abi::BPFDB_SEGMENTS_MAX) * SEGMENT_SIZE;

        bounded(
            "versions",
            self.versions.into(),
            1,
            abi::BPFDB_VERSIONS_MAX.into(),
        )?;
        bounded("memory limit", self.memory_limit, 1, most_memory)?;
        bounded(
            "memory limit's limit",
            self.memory_limit_max,
            0,
            most_memory,
        )?;
        bounded(
            "sessions",
            self.max_sessions.into(),
            1,
            abi::BPFDB_SESSIONS_MAX.into(),
        )?;
        if self.log_ring != 0 {
            bounded(
                "ring of the log",
                self.log_ring.into(),
                abi::BPFDB_LOG_RING_MIN.into(),
                abi::BPFDB_LOG_RING_MAX.into(),
            )?;
            if !self.log_ring.is_power_of_two() {
                return Err(Error::Invalid(format!(
                    "ring of the log is {}, must be a power of two",
                    self.log_ring
                )));
            }
        }
        bounded(
            "ordered tables",
            self.ordered_tables.into(),
            0,
            abi::BPFDB_ORDERED_TABLES_MAX.into(),
        )?;
        bounded("user sessions", self.user_sessions.into(), 1, 4096)?;
        bounded(
            "locks",
            self.max_locks.into(),
            1,
            abi::BPFDB_LOCKS_MAX.into(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_whole_segments() {
        let options = Options {
            memory_limit: 40 << 20,
            ..Options::default()
        };
        let config = options.config().expect("valid");
        assert_eq!(config.segments_max, 3);
        assert_eq!(config.pages_max, 768);
        assert_eq!(config.directory_bits, 11);
    }

    #[test]
    fn options_out_of_bounds_are_refused() {
        let options = Options {
            versions: 9,
            ..Options::default()
        };
        assert!(options.config().is_err());
    }
}
