//! Redis as a front end of the transport: its programs, and its words of a connection
//! (`bpf/redis/answer.bpf.h` is the other side).

use std::sync::atomic::{AtomicU32, Ordering};

use bpfdb::{Database, abi};

use super::connections::{FrontEndWords, KernelConnections};
use super::objects;
use super::programs::FrontEnd;
use crate::protocol::reply::Protocol;

const _: () = assert!(size_of::<abi::bpfdb_redis_connection>() <= size_of::<FrontEndWords>());

/// The program of the commands with `BPFDB_APART`.
pub(super) const APART: &str = "apart";
/// The one to which that leaves large collections.
pub(super) const LARGE: &str = "large";

/// The programs that have cold values read: of what is handed over, and of what arrives while the daemon has the
/// connection.
pub(super) const PREFETCH: &str = "prefetch";
pub(super) const PREFETCH_SEGMENT: &str = "prefetch_segment";

/// Those that answer GETs of cold values: of what arrives, of what io_uring sends, and of what it has done.
pub(super) const PARK: &str = "park";
pub(super) const SENT: &str = "sent";
pub(super) const COMPLETED: &str = "completed";

/// The programs of `bpf/redis.bpf.c`.
pub(crate) fn front_end() -> FrontEnd {
    FrontEnd {
        name: "redis",
        object: objects::REDIS,
        later: &[
            APART,
            LARGE,
            PREFETCH,
            PREFETCH_SEGMENT,
            PARK,
            SENT,
            COMPLETED,
        ],
    }
}

impl KernelConnections {
    fn redis(&self, index: u32) -> *mut abi::bpfdb_redis_connection {
        self.front_end(index).cast()
    }

    /// What the kernel executed last, if it did anything since it has the connection:
    /// one of enum bpfdb_command.
    pub(crate) fn last_command(&self, index: u32) -> Option<u32> {
        // SAFETY: an aligned word of the connection's, which both sides read and write as a whole.
        let command = unsafe { AtomicU32::from_ptr(&raw mut (*self.redis(index)).command) };
        self.has_answered(index)
            .then(|| command.load(Ordering::Relaxed))
    }

    /// Tells the kernel in which protocol to reply, before it is handed back.
    pub(crate) fn set_protocol(&self, index: u32, protocol: Protocol) {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.redis(index)).resp3) }
            .store((protocol == Protocol::Resp3).into(), Ordering::Release);
    }

    /// Tells the kernel in which database of the engine the connection's keys are.
    pub(crate) fn set_database(&self, index: u32, database: Database) {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.redis(index)).database) }
            .store(database.number() as u32, Ordering::Release);
    }

    /// Tells the kernel whether values may be read for the client before it asks for them.
    pub(crate) fn set_may_prefetch(&self, index: u32, may_prefetch: bool) {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.redis(index)).may_prefetch) }
            .store(may_prefetch.into(), Ordering::Release);
    }

    /// Tells the kernel whether EXEC has keys to compare, before it is handed back.
    pub(crate) fn set_watching(&self, index: u32, watching: bool) {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.redis(index)).watching) }
            .store(watching.into(), Ordering::Release);
    }
}
