//! Files of values that the page cache does not have.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

/// Between two times that it is emptied while something runs.
const PERIOD: Duration = Duration::from_millis(100);

/// Takes the files of values out of the page cache.
pub(super) fn evict(folder: &Path) -> Result<()> {
    let runs = folder.join("tier");
    let files = fs::read_dir(&runs).with_context(|| runs.display().to_string())?;
    for file in files {
        // It may have gone meanwhile.
        let Ok(file) = File::open(file?.path()) else {
            continue;
        };
        // SAFETY: plain system call on an open file.
        let refused =
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        ensure!(refused == 0, "the page cache keeps a file of values");
    }
    Ok(())
}

/// Does `work`, and has the page cache as good as nothing of the files meanwhile.
pub(super) fn without<T>(folder: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    evict(folder)?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let evicting = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                evict(folder)?;
                thread::park_timeout(PERIOD);
            }
            anyhow::Ok(())
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        evicting.thread().unpark();
        evicting.join().map_err(|_| anyhow!("a thread failed"))??;
        done
    })
}
