//! `bpfdb docs`: documentation that comes from the code.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use bpfdb::Status;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    part: Part,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Part {
    /// docs/errors.md
    Errors,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match arguments.part {
        Part::Errors => print!("{}", errors()),
    }
    Ok(ExitCode::SUCCESS)
}

fn errors() -> String {
    let (errors, outcomes): (Vec<_>, Vec<_>) = Status::ALL.iter().partition(|s| s.is_error());
    let mut page = String::from(
        "# Outcomes and Errors\n\n\
         Generated from `include/bpfdb/status.h` by `make fmt`. C names carry the prefix\n\
         `BPFDB_`; `bpfdb stats` has a counter for each.\n\n\
         ## Outcomes\n\n",
    );
    page += &table(&outcomes);
    page += "\n## Errors\n\n\
             After an Error inside a transaction only ROLLBACK is useful: COMMIT rolls back, and\n\
             says `ROLLED_BACK`. An operator that fails leaves nothing half done.\n\n";
    page += &table(&errors);
    page
}

fn table(rows: &[&Status]) -> String {
    let mut table =
        String::from("| Code | Name | What happened | What to do |\n|---|---|---|---|\n");
    for status in rows {
        let (code, name) = (status.code(), status.name());
        let (text, action) = (status.text(), status.action());
        // Writing to a String cannot fail.
        let _ = writeln!(table, "| {code} | `{name}` | {text} | {action} |");
    }
    table
}

#[cfg(test)]
mod tests {
    #[test]
    fn errors_page_is_current() {
        let page = include_str!("../../../docs/errors.md");
        assert!(
            page == super::errors(),
            "docs/errors.md is out of date: run `make fmt`"
        );
    }
}
