//! The directory itself: its owner, its rights, and the space that it has.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use bpfdb_log::Holder;
use bpfdb_server::settings::Size;
use nix::sys::statvfs::statvfs;
use serde_json::json;

use super::{Section, line};

pub(super) fn section(dir: &Path) -> Result<Section> {
    let shown = dir.display();
    let mode = fs::metadata(dir).with_context(|| format!("cannot look at {shown}"))?;
    let mode = mode.permissions().mode() & 0o7777;
    let owner = Holder::of(dir).with_context(|| format!("cannot find the owner of {shown}"))?;
    let space = statvfs(dir).with_context(|| format!("cannot find the space of {shown}"))?;
    let free = space.blocks_available() as u64 * space.fragment_size() as u64;

    let mut text = format!("{shown}\n");
    let owned = owner.map_or("no process".into(), |owner| {
        format!("process {}", owner.pid)
    });
    line(&mut text, "owner", &owned);
    line(&mut text, "free space", &Size(free).to_string());
    let is_exposed = mode & 0o077 != 0;
    if is_exposed {
        let what = format!("EXPOSED: others may use it (mode {mode:04o}); a server refuses it");
        line(&mut text, "mode", &what);
    }
    Ok(Section {
        name: "directory",
        is_fine: !is_exposed,
        json: json!({
            "path": dir.to_string_lossy(),
            "owner_pid": owner.map(|owner| owner.pid),
            "mode": format!("{mode:04o}"),
            "free_bytes": free,
        }),
        text,
    })
}
