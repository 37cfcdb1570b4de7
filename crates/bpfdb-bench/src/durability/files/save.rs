//! One checkpoint, or BGSAVE.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::time::ClockId;
use nix::unistd::Pid;

use super::store::{Program, Store};
use crate::durability::client::Client;

/// Of Redis.
pub(super) const RDB: &str = "dump.rdb";
const PAUSE: Duration = Duration::from_millis(2);

/// What it took.
pub(super) struct Saved {
    pub(super) seconds: f64,
    /// Of processors, by the server and the process that it forks.
    pub(super) processor: f64,
    /// Of the file.
    bytes: u64,
}

impl Saved {
    pub(super) fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.seconds
    }
}

/// Makes one, and waits until it counts.
pub(super) fn save(store: &Store) -> Result<Saved> {
    let mut client = Client::new(&store.server)?;
    let busy = processor_seconds(store.server.process())?;
    let begun = Instant::now();
    let seconds = match store.program {
        // Others are served meanwhile. The reply comes when the checkpoint counts.
        Program::Bpfdb => {
            client.ask(&["SAVE"])?;
            begun.elapsed()
        }
        Program::Redis(..) => bgsave(store, &mut client)?,
    };
    Ok(Saved {
        seconds: seconds.as_secs_f64(),
        processor: processor_seconds(store.server.process())? - busy,
        bytes: bytes(store, &mut client)?,
    })
}

/// Until the new file has its name; Redis itself looks ten times a second only.
fn bgsave(store: &Store, client: &mut Client) -> Result<Duration> {
    let path = store.folder.join(RDB);
    let file = || fs::metadata(&path).map(|file| file.ino()).ok();
    let (before, begun) = (file(), Instant::now());
    client.ask(&["BGSAVE"])?;
    // The process that writes it has ended, or failed, when Redis says so.
    while file() == before && client.figure("rdb_bgsave_in_progress")? > 0 {
        thread::sleep(PAUSE);
    }
    let took = begun.elapsed();
    while client.figure("rdb_bgsave_in_progress")? > 0 {
        thread::sleep(PAUSE);
    }
    ensure!(file() != before, "{}: BGSAVE has failed", store.name());
    Ok(took)
}

fn bytes(store: &Store, client: &mut Client) -> Result<u64> {
    match store.program {
        Program::Bpfdb => client.figure("checkpoint_bytes"),
        Program::Redis(..) => Ok(fs::metadata(store.folder.join(RDB))?.len()),
    }
}

/// Of a process, its threads, and those of its children that have ended.
fn processor_seconds(process: u32) -> Result<f64> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(process as i32))?;
    let own = Duration::from(clock.now()?).as_secs_f64();
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    Ok(own + children_seconds(&stat).with_context(|| format!("{path} has {stat}"))?)
}

/// `cutime` and `cstime`: the 14th and 15th field behind the name, which may have spaces.
fn children_seconds(stat: &str) -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0; // USER_HZ
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(13);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_that_have_ended_count() {
        let stat = "17 (redis) server) S 1 17 17 0 -1 4194560 1 2 3 4 50 60 700 80 20 0 1 0";
        assert_eq!(children_seconds(stat), Some(7.8));
        assert_eq!(children_seconds("17"), None);
    }

    #[test]
    fn work_is_seen() {
        let before = processor_seconds(std::process::id()).expect("a figure");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let after = processor_seconds(std::process::id()).expect("a figure");
        assert!(after > before, "{before} {after}");
    }
}
