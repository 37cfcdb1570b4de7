//! Memory of the server's process, and of the kernel.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

/// MiB.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) process: f64,
    /// Of the whole machine: sockets, what waits in them, slabs, maps.
    pub(super) kernel: f64,
}

impl Memory {
    pub(super) fn of(process: u32) -> Result<Self> {
        let status = read(&format!("/proc/{process}/status"))?;
        let process = mebibytes(&status, "VmRSS").context("the server is gone")?;
        let kernel = kernel(&read("/proc/meminfo")?).context("no meminfo")?;
        Ok(Self { process, kernel })
    }

    fn max(self, other: Self) -> Self {
        Self {
            process: self.process.max(other.process),
            kernel: self.kernel.max(other.kernel),
        }
    }
}

/// What neither is free nor can be, and is not of a process either. There is no
/// counter for what waits in sockets, and others come and go meanwhile.
fn kernel(meminfo: &str) -> Option<f64> {
    let others = ["MemFree", "Buffers", "Cached", "AnonPages", "SReclaimable"];
    let mut kernel = mebibytes(meminfo, "MemTotal")?;
    for other in others {
        kernel -= mebibytes(meminfo, other)?;
    }
    Some(kernel)
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("read {path}"))
}

/// The figure in a line `name: … kB`.
fn mebibytes(text: &str, name: &str) -> Option<f64> {
    let line = |line: &str| {
        let (key, value) = line.split_once(':')?;
        (key == name).then(|| value.trim().split(' ').next()?.parse::<f64>().ok())?
    };
    text.lines()
        .find_map(line)
        .map(|kibibytes| kibibytes / 1024.0)
}

/// A thread that looks again and again.
pub(super) struct Watch<'scope> {
    over: Arc<AtomicBool>,
    thread: ScopedJoinHandle<'scope, Result<Memory>>,
}

impl<'scope> Watch<'scope> {
    pub(super) fn start(scope: &'scope Scope<'scope, '_>, process: u32) -> Self {
        const PAUSE: Duration = Duration::from_millis(10);
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let watch = move || {
            let mut most = Memory::of(process)?;
            while !told.load(Ordering::Relaxed) {
                thread::sleep(PAUSE);
                most = most.max(Memory::of(process)?);
            }
            Ok(most)
        };
        let thread = scope.spawn(watch);
        Self { over, thread }
    }

    pub(super) fn most(self) -> Result<Memory> {
        self.over.store(true, Ordering::Relaxed);
        super::joined(self.thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_what_nobody_else_has() {
        let text = "MemTotal: 10240 kB\nMemFree: 1024 kB\nBuffers: 1024 kB\nCached: 1024 kB\n\
                    AnonPages: 1024 kB\nSReclaimable: 1024 kB\n";
        assert_eq!(kernel(text), Some(5.0));
        assert_eq!(mebibytes(text, "Cache"), None);
    }
}
