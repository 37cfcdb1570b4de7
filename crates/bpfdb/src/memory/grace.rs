//! Waiting until every program that runs now has ended: a grace period of RCU.
//!
//! Every program that may use an engine runs inside a read-side critical section of RCU:
//! none may sleep (docs/embedding.md), and the kernel runs those that do not under
//! `rcu_read_lock`, or with preemption or softirqs off, which is the same to it.
//!
//! User space has no system call of this meaning. `membarrier(MEMBARRIER_CMD_GLOBAL)`
//! comes near, but is refused with `nohz_full`, and returns at once with one processor
//! on line, also for a program that was preempted there. The kernel does wait for one
//! (`synchronize_rcu`) before it returns from an update of a map of maps, so that user
//! space knows that no program uses the inner map from before any more.

use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use crate::error::{Result, bpf};

/// A map of maps for nothing else. Its descriptors are closed with it.
#[derive(Debug)]
pub struct Grace {
    outer: MapHandle,
    inner: MapHandle,
}

impl Grace {
    /// # Errors
    /// The maps cannot be made.
    pub fn new() -> Result<Self> {
        let inner = array(MapType::Array, "bpfdb_nothing", None)?;
        let outer = array(MapType::ArrayOfMaps, "bpfdb_grace", Some(&inner))?;
        Ok(Self { outer, inner })
    }

    /// Waits; some ten milliseconds, and longer on a busy machine.
    ///
    /// # Errors
    /// The kernel refuses the update; nothing was awaited.
    pub fn wait(&self) -> Result<()> {
        let inner = self.inner.as_fd().as_raw_fd();
        self.outer
            .update(&0u32.to_ne_bytes(), &inner.to_ne_bytes(), MapFlags::ANY)
            .map_err(bpf("wait for a grace period"))
    }
}

/// One entry of four bytes.
fn array(kind: MapType, name: &str, inner: Option<&MapHandle>) -> Result<MapHandle> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        inner_map_fd: inner.map_or(0, |map| map.as_fd().as_raw_fd() as u32),
        ..Default::default()
    };
    MapHandle::create(kind, Some(name), 4, 4, 1, &options)
        .map_err(bpf(format!("create the map {name}")))
}
