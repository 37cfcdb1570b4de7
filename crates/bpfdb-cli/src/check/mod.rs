//! `bpfdb check`: a list of sections, each about a part of the data directory. It only reads, takes
//! no lock, and works beside a server.

pub(crate) mod checkpoint;
mod directory;
mod log;
mod retained;
mod runs;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::{Map, Value};

use crate::output;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Data directory
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is known of a part of the directory.
struct Section {
    name: &'static str,
    /// Whether a server could start from it, and nothing of it is damaged.
    is_fine: bool,
    json: Value,
    text: String,
}

/// One function for each part.
const SECTIONS: [fn(&Path) -> Result<Section>; 5] = [
    directory::section,
    checkpoint::section,
    log::section,
    retained::section,
    runs::section,
];

/// Exit code 0: a server can start from it. 1: it cannot, or something is damaged, or the directory
/// cannot be read.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let dir = &arguments.dir;
    if !dir.is_dir() {
        bail!("{} is no directory, or cannot be read", dir.display());
    }
    let sections = SECTIONS.iter().map(|section| section(dir));
    let sections = sections.collect::<Result<Vec<_>>>()?;
    let is_fine = sections.iter().all(|section| section.is_fine);
    output::print(&match arguments.json {
        true => json(sections, is_fine)?,
        false => sections
            .iter()
            .map(|section| section.text.as_str())
            .collect(),
    })?;
    Ok(match is_fine {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn json(sections: Vec<Section>, is_fine: bool) -> Result<String> {
    let mut object = Map::new();
    object.insert("fine".into(), is_fine.into());
    for section in sections {
        object.insert(section.name.into(), section.json);
    }
    Ok(serde_json::to_string_pretty(&object)? + "\n")
}

/// A line of text: what it is about, and what is known.
fn line(text: &mut String, about: &str, what: &str) {
    text.push_str(&format!("{about:<12}{what}\n"));
}
