//! `bpfdb procedures`: functions and scripts of a running server, where they run, how often, and
//! why not the kernel.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use crate::output;
use crate::server::{Address, Server};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Show the operations of this one, and its program beside its lines of Lua
    name: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "name")]
    json: bool,
    #[command(flatten)]
    server: Address,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut server = Server::connect(&arguments.server)?;
    let reply = server.ask(&["PROCEDURES"])?;
    let text = if arguments.json {
        serde_json::to_string_pretty(&reply)? + "\n"
    } else {
        let all = read(reply)?;
        match &arguments.name {
            Some(name) => one(&mut server, &all, name)?,
            None => table(&all) + &reasons(&all),
        }
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// As the command PROCEDURES shows it.
#[derive(Debug, Deserialize)]
struct Procedure {
    name: String,
    kind: String,
    path: String,
    calls: u64,
    interpreted: u64,
    conflicts: u64,
    errors: u64,
    mean_nanoseconds: u64,
    longest_nanoseconds: u64,
    verified_instructions: u64,
    machine_code_bytes: u64,
    deoptimisations: BTreeMap<String, u64>,
    reasons: Vec<String>,
}

fn read(reply: Value) -> Result<Vec<Procedure>> {
    serde_json::from_value(reply).context("the server is of another version than this command")
}

/// The listing of one; why there is none.
fn one(server: &mut Server, all: &[Procedure], name: &str) -> Result<String> {
    let Some(known) = all.iter().find(|one| one.name == name) else {
        bail!("no function or script {name}: a script is shown when it was called some times");
    };
    if known.path == "compiling" {
        return Ok(format!("{} {name} is being compiled\n", known.kind));
    }
    if !known.has_program() {
        return Ok(reasons(std::slice::from_ref(known)));
    }
    let listing = server.ask(&["PROCEDURES", "LISTING", name])?;
    let listing = listing.as_str().context("a listing that is no text")?;
    Ok(listing.to_owned())
}

impl Procedure {
    fn given_up(&self) -> u64 {
        self.errors + self.deoptimisations.values().sum::<u64>()
    }

    fn has_program(&self) -> bool {
        self.verified_instructions > 0
    }

    fn row(&self) -> [String; COLUMNS.len()] {
        let of_program = |text: String| match self.has_program() {
            true => text,
            false => "-".into(),
        };
        let time = |nanoseconds| match self.longest_nanoseconds {
            0 => "-".into(),
            _ => Time(Duration::from_nanos(nanoseconds)).to_string(),
        };
        [
            self.name.clone(),
            self.kind.clone(),
            self.path.clone(),
            of_program(self.calls.to_string()),
            self.interpreted.to_string(),
            of_program(self.conflicts.to_string()),
            of_program(self.given_up().to_string()),
            time(self.mean_nanoseconds),
            time(self.longest_nanoseconds),
            of_program(self.verified_instructions.to_string()),
            of_program(self.machine_code_bytes.to_string()),
        ]
    }

    /// Why calls were deoptimised: `fuel 3, heap 1`.
    fn why_deoptimised(&self) -> String {
        let errors = [("engine_error", self.errors)].into_iter();
        let others = self.deoptimisations.iter();
        let all = others.map(|(name, &count)| (name.as_str(), count));
        let all: Vec<String> = all
            .chain(errors.filter(|&(_, count)| count > 0))
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        all.join(", ")
    }
}

struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos();
        match nanoseconds {
            0..10_000 => write!(f, "{nanoseconds} ns"),
            10_000..10_000_000 => write!(f, "{} us", nanoseconds / 1000),
            _ => write!(f, "{} ms", nanoseconds / 1_000_000),
        }
    }
}

/// `calls` to `longest` are those of the kernel, but for `daemon`: calls that the interpreter ran.
const COLUMNS: [&str; 11] = [
    "name",
    "kind",
    "path",
    "calls",
    "daemon",
    "retries",
    "deoptimised",
    "mean",
    "longest",
    "verified",
    "bytes",
];
/// The first of them are words, the others numbers.
const WORDS: usize = 3;

fn table(all: &[Procedure]) -> String {
    if all.is_empty() {
        return "no functions, and no script that was called often\n".into();
    }
    let head = COLUMNS.map(str::to_owned);
    let rows: Vec<_> = [head]
        .into_iter()
        .chain(all.iter().map(Procedure::row))
        .collect();
    let widths: [usize; COLUMNS.len()] = std::array::from_fn(|column| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or_default()
    });
    let mut table = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (text, width)) in row.iter().zip(widths).enumerate() {
            // Writing to a String cannot fail.
            let _ = match column < WORDS {
                true => write!(line, "{text:<width$}  "),
                false => write!(line, "{text:>width$}  "),
            };
        }
        table += line.trim_end();
        table.push('\n');
    }
    table
}

/// What keeps procedures out of the kernel, and why calls of others were deoptimised.
fn reasons(all: &[Procedure]) -> String {
    let mut text = String::new();
    for one in all {
        let why = one.why_deoptimised();
        if one.reasons.is_empty() && why.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{} {}", one.kind, one.name);
        for reason in &one.reasons {
            let _ = writeln!(text, "  {reason}");
        }
        if !why.is_empty() {
            let _ = writeln!(text, "  deoptimised: {why}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_for_people() {
        let all = read(json!([
            {
                "name": "vote", "kind": "function", "path": "kernel", "calls": 1_234_567,
                "interpreted": 3, "conflicts": 17, "errors": 1, "mean_nanoseconds": 812,
                "longest_nanoseconds": 41_000, "verified_instructions": 91_400,
                "generated_instructions": 300, "machine_code_bytes": 76_000,
                "compile_microseconds": 120_000, "deoptimisations": {"fuel": 2}, "reasons": [],
            },
            {
                "name": "slow", "kind": "function", "path": "daemon", "calls": 0,
                "interpreted": 9, "conflicts": 0, "errors": 0, "mean_nanoseconds": 0,
                "longest_nanoseconds": 0, "verified_instructions": 0,
                "generated_instructions": 0, "machine_code_bytes": 0,
                "compile_microseconds": 0, "deoptimisations": {},
                "reasons": ["line 3: a table is changed"],
            },
        ]))
        .expect("as the server replies");
        assert_eq!(
            table(&all),
            "\
name  kind      path      calls  daemon  retries  deoptimised    mean  longest  verified  bytes
vote  function  kernel  1234567       3       17            3  812 ns    41 us     91400  76000
slow  function  daemon        -       9        -            -       -        -         -      -
"
        );
        assert_eq!(
            reasons(&all),
            "
function vote
  deoptimised: fuel 2, engine_error 1

function slow
  line 3: a table is changed
"
        );
        assert_eq!(
            table(&[]),
            "no functions, and no script that was called often\n"
        );
    }
}
