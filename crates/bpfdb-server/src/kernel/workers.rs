//! The kernel's workers that send for us, and their priority.
//!
//! What arrives from a remote client is answered by a worker that is bound to the processor
//! where it arrived, and has the nice value 0 like any process. Where busy processes wait
//! for that processor, the worker waits among them. The kernel has no setting for this, but
//! the nice value of a worker can be changed like that of any thread. Workers come and go:
//! the programs say which ones run them (`bpf/net/worker.bpf.h`), and once a second those
//! that are new get the nice value of the setting.
//!
//! Such a worker serves others in the kernel too. So nothing is changed unless the setting
//! says so, and each gets back what the kernel gave it when the setting goes, or the server.
//! Not what it was found with: that may come from a server that was killed.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

/// Flag of a thread of the kernel, in /proc/PID/stat.
const PF_KTHREAD: u64 = 0x0020_0000;

#[derive(Debug)]
pub(crate) struct Workers {
    /// Processor -> thread that sent there last.
    map: MapHandle,
    /// Threads that were given another nice value, and what the kernel gave them.
    changed: BTreeMap<u32, i32>,
    /// The nice value they were given.
    nice: i32,
    /// It was said that it cannot be done.
    failed: bool,
}

impl Workers {
    pub(crate) fn new(map: MapHandle) -> Self {
        Self {
            map,
            changed: BTreeMap::new(),
            nice: 0,
            failed: false,
        }
    }

    /// Gives this nice value to those that have sent; 0: to each what the kernel gave it.
    pub(crate) fn prefer(&mut self, nice: i64) {
        let nice = i32::try_from(nice).unwrap_or(0);
        if nice != self.nice {
            self.restore();
            self.nice = nice;
            self.failed = false;
        }
        if nice == 0 {
            return;
        }
        // A number may be given again.
        self.changed.retain(|&thread, _| is_worker(thread));
        for thread in self.seen() {
            if !self.changed.contains_key(&thread) && is_worker(thread) {
                self.raise(thread);
            }
        }
    }

    /// The one that sent last on each processor.
    fn seen(&self) -> Vec<u32> {
        let processors = self.map.max_entries();
        let seen = (0..processors).filter_map(|processor| {
            let found = self.map.lookup(&processor.to_ne_bytes(), MapFlags::ANY);
            let bytes = found.ok().flatten()?.try_into().ok()?;
            Some(u32::from_ne_bytes(bytes))
        });
        seen.filter(|&thread| thread != 0).collect()
    }

    fn raise(&mut self, thread: u32) {
        let own = own_nice(&name_of(thread));
        match set_nice(thread, self.nice) {
            Ok(()) => {
                self.changed.insert(thread, own);
                tracing::debug!(
                    thread,
                    nice = self.nice,
                    "a worker of the kernel is preferred"
                );
            }
            Err(error) if !self.failed => {
                self.failed = true;
                tracing::warn!(%error, "cannot change the nice value of the kernel's workers");
            }
            Err(_) => {}
        }
    }

    fn restore(&mut self) {
        for (thread, own) in std::mem::take(&mut self.changed) {
            // Else it has been changed since.
            if is_worker(thread) && nice_of(thread) == self.nice {
                // It may have ended meanwhile.
                let _ = set_nice(thread, own);
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Is this a worker of the kernel? In a namespace of processes that does not show them the
/// number may be that of any thread.
fn is_worker(thread: u32) -> bool {
    fs::read_to_string(format!("/proc/{thread}/stat")).is_ok_and(|stat| stat_is_of_worker(&stat))
}

/// `PID (NAME) STATE …`, the flags in the seventh place behind the name.
fn stat_is_of_worker(stat: &str) -> bool {
    let Some((front, rest)) = stat.rsplit_once(')') else {
        return false;
    };
    let flags = rest.split_whitespace().nth(6);
    let flags = flags.and_then(|flags| flags.parse::<u64>().ok());
    front.contains("(kworker/") && flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// `kworker/PROCESSOR:NUMBER`, and what it is doing; empty if it has ended.
fn name_of(thread: u32) -> String {
    fs::read_to_string(format!("/proc/{thread}/comm")).unwrap_or_default()
}

/// What the kernel gives a worker of this name: those of a processor's pool of high
/// priority have an H behind their number.
fn own_nice(name: &str) -> i32 {
    let number = name.split(['-', '+']).next().unwrap_or_default();
    if number.trim_end().ends_with('H') {
        -20
    } else {
        0
    }
}

fn nice_of(thread: u32) -> i32 {
    // SAFETY: plain system call. What it says of a thread that is gone is not used.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, thread) }
}

fn set_nice(thread: u32, nice: i32) -> io::Result<()> {
    // SAFETY: plain system call; the result is checked.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, thread, nice) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_known_by_name_and_flags() {
        let worker = "9 (kworker/0:0-events) I 2 0 0 0 -1 69238880 0 0";
        let process = "9 (kworker/0:0) S 2 0 0 0 -1 4194560 0 0";
        let other = "14 (ksoftirqd/0) S 2 0 0 0 -1 69238848 0 0";
        assert!(stat_is_of_worker(worker));
        assert!(!stat_is_of_worker(process));
        assert!(!stat_is_of_worker(other));
        assert!(!stat_is_of_worker(""));
        assert!(!is_worker(std::process::id()));
    }

    #[test]
    fn what_the_kernel_gives_a_worker() {
        for name in [
            "kworker/0:1\n",
            "kworker/11:2-events\n",
            "kworker/0:0+sk_psock\n",
            "",
        ] {
            assert_eq!(own_nice(name), 0, "{name}");
        }
        for name in ["kworker/0:0H\n", "kworker/3:1H-kblockd\n"] {
            assert_eq!(own_nice(name), -20, "{name}");
        }
    }
}
