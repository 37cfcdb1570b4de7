//! Flags that the daemon sets for the programs, for all connections.

use std::cell::Cell;

use bpfdb::abi;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::error::{Result, bpf};

/// Variables of the programs, by which the daemon steers what they do with all connections.
#[derive(Debug)]
pub(crate) struct KernelFlags {
    map: MapHandle,
    audience: MapHandle,
    closed: Cell<bool>,
    paused: Cell<bool>,
    plain: Cell<bool>,
    /// `None`: what a server before has left is not known.
    has_audience: Cell<Option<bool>>,
}

impl KernelFlags {
    /// That of the transport, and that of Redis.
    pub(super) fn new(map: MapHandle, audience: MapHandle) -> Self {
        Self {
            map,
            audience,
            closed: Cell::new(false),
            paused: Cell::new(false),
            plain: Cell::new(false),
            has_audience: Cell::new(None),
        }
    }

    /// Whether the daemon answers new connections first.
    pub(crate) fn meet_first(&self, is_daemon: bool) -> Result<()> {
        self.set(&self.closed, is_daemon)
    }

    /// Whether the kernel passes all requests to the daemon.
    pub(crate) fn pass_everything(&self, pass: bool) -> Result<()> {
        self.set(&self.paused, pass)
    }

    /// Whether connections that are made from now on are plain TCP, which costs less than
    /// handing every request over.
    pub(crate) fn leave_alone(&self, plain: bool) -> Result<()> {
        self.set(&self.plain, plain)
    }

    /// Whether PUBLISH is the daemon's, because a client has subscribed to something.
    pub(crate) fn has_audience(&self, is_there: bool) -> Result<()> {
        if self.has_audience.get() == Some(is_there) {
            return Ok(());
        }
        let value = u32::from(is_there).to_ne_bytes();
        let written = (self.audience).update(&0u32.to_ne_bytes(), &value, MapFlags::ANY);
        written.map_err(bpf("set which side publishes"))?;
        self.has_audience.set(Some(is_there));
        Ok(())
    }

    /// An error: the kernel goes on as before.
    fn set(&self, flag: &Cell<bool>, says: bool) -> Result<()> {
        let before = flag.replace(says);
        self.write().inspect_err(|_| flag.set(before))
    }

    fn write(&self) -> Result<()> {
        let mut value = vec![0; self.map.value_size() as usize];
        let flags = [&self.closed, &self.paused, &self.plain];
        for (word, says) in value.chunks_exact_mut(4).zip(flags) {
            word.copy_from_slice(&u32::from(says.get()).to_ne_bytes());
        }
        let written = self.map.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY);
        written.map_err(bpf("set which side answers"))
    }
}

// The words that are written.
const _: () = assert!(size_of::<abi::bpfdb_gate>() == 12);
const _: () = assert!(size_of::<abi::bpfdb_audience>() == 4);
