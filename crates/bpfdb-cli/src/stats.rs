//! `bpfdb stats`.

use std::fmt::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use bpfdb::{Observer, Stats};
use bpfdb_server::settings::Size;
use serde_json::{Map, Value};

use crate::{output, pins};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Port of the server whose engine to look at
    #[arg(long, short, default_value_t = 6379)]
    port: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let folder = pins::folder_of(arguments.port)?;
    let observer = Observer::open(&folder)
        .with_context(|| format!("no engine of a server on port {}", arguments.port))?;
    let value = describe(&observer.stats()?);
    let text = if arguments.json {
        serde_json::to_string_pretty(&value)? + "\n"
    } else {
        let mut text = String::new();
        print_section(&mut text, "", &value)?;
        text
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Everything there is, as nested objects of numbers.
fn describe(stats: &Stats) -> Value {
    let mut root = Value::Object(Map::new());
    for figure in bpfdb_server::figures(stats) {
        let place = figure
            .path
            .split('.')
            .fold(&mut root, |object, name| &mut object[name]);
        *place = figure.value.into();
    }
    root
}

fn print_section(out: &mut String, indent: &str, value: &Value) -> fmt::Result {
    let Value::Object(entries) = value else {
        return Ok(());
    };
    for (name, value) in entries {
        match value.as_u64() {
            Some(bytes) if name.ends_with("_bytes") => {
                let name = name.trim_end_matches("_bytes");
                writeln!(out, "{indent}{name:<20} {:>16}", Size(bytes))?;
            }
            Some(number) => writeln!(out, "{indent}{name:<20} {number:>16}")?,
            None => {
                writeln!(out, "{indent}{name}")?;
                print_section(out, &format!("{indent}  "), value)?;
            }
        }
    }
    Ok(())
}
