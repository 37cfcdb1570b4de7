//! Files of cold values. Which of their values count only the engine knows: the log and checkpoints
//! have all of them, so a server can start without these files.

use std::path::Path;

use anyhow::{Context, Result};
use bpfdb_log::Directory;
use serde_json::json;

use super::{Section, line};

const WAY_OUT: &str = "log and checkpoint have these values: `bpfdb serve --fresh` recovers them";

pub(super) fn section(dir: &Path) -> Result<Section> {
    let found = bpfdb_tier::check(&Directory::read_only(dir))
        .with_context(|| format!("cannot read {}", dir.join(bpfdb_tier::FOLDER).display()))?;
    let mut text = String::new();
    for fault in &found.faults {
        line(&mut text, "cold values", &format!("DAMAGED: {fault}"));
    }
    if !found.faults.is_empty() {
        line(&mut text, "cold values", WAY_OUT);
    }
    Ok(Section {
        name: "tier",
        is_fine: found.faults.is_empty(),
        json: json!({
            "runs": found.runs,
            "values": found.values,
            "value_bytes": found.bytes,
            "faults": found.faults,
        }),
        text,
    })
}
