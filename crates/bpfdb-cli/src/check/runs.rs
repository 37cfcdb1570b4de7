//! Files of cold values. Which of their values count only the engine knows: the log and checkpoints
//! have all of them, so a server can start without these files.

use std::path::Path;

use anyhow::{Context, Result};
use bpfdb_log::Directory;
use serde_json::json;

use super::{Section, line};

pub(super) fn section(dir: &Path) -> Result<Section> {
    let wrong = bpfdb_tier::check(&Directory::read_only(dir))
        .with_context(|| format!("cannot read {}", dir.join(bpfdb_tier::FOLDER).display()))?;
    let mut text = String::new();
    for fault in &wrong {
        line(&mut text, "cold values", &format!("DAMAGED: {fault}"));
    }
    Ok(Section {
        name: "tier",
        is_fine: wrong.is_empty(),
        json: json!({ "faults": wrong }),
        text,
    })
}
