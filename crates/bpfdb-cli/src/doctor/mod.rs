//! `bpfdb doctor`: what this machine offers, what is missing, what to do.

mod features;
mod kernel;
mod memory;
mod mounts;
mod permissions;

use std::process::ExitCode;

use anyhow::{Context, Result};
use bpfdb_server::settings::Size;
use serde::Serialize;

use crate::output;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Memory that the engine shall be able to use
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = clap::value_parser!(Size))]
    memory: Size,
}

/// One thing looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Check {
    name: String,
    state: State,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Not as it should be, but bpfdb works.
    Note,
    /// bpfdb does not work without it.
    Missing,
}

impl Check {
    fn ok(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state: State::Ok,
            found: found.into(),
            advice: None,
        }
    }

    fn note(name: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
        let advice = Some(advice.into());
        Self {
            state: State::Note,
            advice,
            ..Self::ok(name, found)
        }
    }

    fn missing(
        name: impl Into<String>,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            state: State::Missing,
            ..Self::note(name, found, advice)
        }
    }
}

#[derive(Serialize)]
struct Report {
    ready: bool,
    checks: Vec<Check>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let report = examine(arguments.memory.bytes());
    let text = if arguments.json {
        serde_json::to_string_pretty(&report).context("writing the report")? + "\n"
    } else {
        page(&report)
    };
    output::print(&text)?;
    Ok(if report.ready {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn examine(memory: u64) -> Report {
    let mut checks = examine_all_but_memory();
    checks.extend(memory::checks(memory));
    Report {
        ready: is_ready(&checks),
        checks,
    }
}

fn examine_all_but_memory() -> Vec<Check> {
    let mut checks = kernel::checks();
    let permissions = permissions::checks();
    let permitted = is_ready(&permissions);
    checks.extend(permissions);
    checks.extend(if permitted {
        features::checks()
    } else {
        vec![features::unknown()]
    });
    checks.extend(mounts::checks());
    checks
}

/// What the engine cannot do without and this machine lacks, as one line. Memory is another
/// question, because a start may go on with what is in memory, or drop it: [`short_of_memory`].
pub(crate) fn first_missing() -> Option<String> {
    first_missing_of(&examine_all_but_memory())
}

/// Whether there is too little memory for `wanted` bytes, `freed` of which are in use and become
/// free before: as one line.
pub(crate) fn short_of_memory(wanted: u64, freed: u64) -> Option<String> {
    first_missing_of(&memory::rooms(wanted, freed))
}

fn first_missing_of(checks: &[Check]) -> Option<String> {
    let missing = |check: &&Check| check.state == State::Missing;
    checks.iter().find(missing).map(|check| {
        let advice = check.advice.as_deref().unwrap_or_default();
        format!("{} is missing ({}): {advice}", check.name, check.found)
    })
}

fn is_ready(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.state != State::Missing)
}

fn page(report: &Report) -> String {
    let mut page: String = report.checks.iter().map(line).collect();
    page += if report.ready {
        "This machine can run bpfdb.\n"
    } else {
        "This machine cannot run bpfdb yet: see what is missing above.\n"
    };
    page
}

fn line(check: &Check) -> String {
    let state = match check.state {
        State::Ok => "ok",
        State::Note => "note",
        State::Missing => "missing",
    };
    let advice = check
        .advice
        .as_ref()
        .map(|advice| format!(": {advice}"))
        .unwrap_or_default();
    format!("{state:<8} {:<24} {}{advice}\n", check.name, check.found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_to_do() {
        assert_eq!(
            line(&Check::ok("JIT", "on")),
            "ok       JIT                      on\n"
        );
        assert_eq!(
            line(&Check::missing("JIT", "off", "turn it on")),
            "missing  JIT                      off: turn it on\n"
        );
    }

    #[test]
    fn a_note_leaves_the_machine_ready() {
        assert!(is_ready(&[Check::ok("a", "b"), Check::note("a", "b", "c")]));
        assert!(!is_ready(&[
            Check::ok("a", "b"),
            Check::missing("a", "b", "c")
        ]));
    }

    #[test]
    fn the_page_ends_with_the_verdict() {
        let verdict = |ready| {
            page(&Report {
                ready,
                checks: vec![Check::ok("a", "b")],
            })
        };
        assert!(verdict(true).ends_with("can run bpfdb.\n"));
        assert!(verdict(false).contains("cannot run bpfdb yet"));
    }
}
