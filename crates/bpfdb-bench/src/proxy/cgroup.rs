//! A control group of this program's own, in which the proxy's programs see no other process.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// This process is in it until it is dropped, and so is what it starts.
pub(super) struct Cgroup {
    own: PathBuf,
    parent: PathBuf,
}

impl Cgroup {
    pub(super) fn enter() -> Result<Self> {
        let mount = bpfdb::mounts::cgroup2()?.context("cgroup v2 is not mounted")?;
        let table = fs::read_to_string("/proc/self/cgroup")?;
        let current = table.lines().find_map(|line| line.strip_prefix("0::/"));
        let parent = mount.join(current.context("this process has no cgroup")?);
        let own = parent.join(format!("bpfdb-bench-{}", std::process::id()));
        fs::create_dir(&own).with_context(|| format!("create {}", own.display()))?;
        let cgroup = Self { own, parent };
        go(&cgroup.own)?;
        Ok(cgroup)
    }

    pub(super) fn path(&self) -> &Path {
        &self.own
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // What is left is named by its number.
        let _ = go(&self.parent).map(|()| fs::remove_dir(&self.own));
    }
}

fn go(path: &Path) -> Result<()> {
    let process = std::process::id().to_string();
    fs::write(path.join("cgroup.procs"), process)
        .with_context(|| format!("enter {}", path.display()))
}
