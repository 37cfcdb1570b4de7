//! The reply of PROCEDURES: how calls were run.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::client::{Client, Reply};

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// Why a call was given up: conflicts, more often than the kernel tries again, are one.
pub const ENGINE_ERROR: &str = "an error of the engine";

/// A function, as PROCEDURES shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Procedure {
    /// `kernel`, `daemon` or `compiling`
    pub path: String,
    /// Answered in the kernel.
    pub calls: u64,
    /// Attempts that were repeated.
    pub conflicts: u64,
    /// Calls that the kernel left to the interpreter, by the reason.
    pub given_up: BTreeMap<String, u64>,
    /// What keeps it out of the kernel.
    pub reasons: Vec<String>,
}

/// All functions and scripts by name.
pub fn procedures(client: &mut Client) -> Result<BTreeMap<String, Procedure>> {
    let reply = client.ask(&["PROCEDURES"])?;
    reply.array()?.iter().map(procedure).collect()
}

fn procedure(reply: &Reply) -> Result<(String, Procedure)> {
    let fields = fields(reply)?;
    let field = |name: &str| fields.get(name).copied().context(name.to_owned());
    let number = |name: &str| Ok::<_, anyhow::Error>(field(name)?.integer()?.unsigned_abs());
    let mut given_up = BTreeMap::new();
    for (&reason, count) in &self::fields(field("deoptimisations")?)? {
        given_up.insert(reason.to_owned(), count.integer()?.unsigned_abs());
    }
    if number("errors")? > 0 {
        given_up.insert(ENGINE_ERROR.to_owned(), number("errors")?);
    }
    let reasons = field("reasons")?.array()?.iter();
    let reasons = reasons.map(|reason| reason.text().map(str::to_owned));
    let procedure = Procedure {
        path: field("path")?.text()?.into(),
        calls: number("calls")?,
        conflicts: number("conflicts")?,
        given_up,
        reasons: reasons.collect::<Result<_>>()?,
    };
    Ok((field("name")?.text()?.into(), procedure))
}

fn fields(reply: &Reply) -> Result<BTreeMap<&str, &Reply>> {
    let mut all = BTreeMap::new();
    for pair in reply.array()?.chunks(2) {
        let [name, value] = pair else {
            bail!("a name without a value: {reply:?}");
        };
        all.insert(name.text()?, value);
    }
    Ok(all)
}

/// Waits until the kernel runs all functions. Fails at once if one stays with the interpreter.
pub fn wait_for_kernel(client: &mut Client) -> Result<()> {
    let start = Instant::now();
    loop {
        let names = function_names(client)?;
        let known = procedures(client)?;
        for (name, procedure) in &known {
            let reasons = procedure.reasons.join("; ");
            ensure!(reasons.is_empty(), "{name} is the interpreter's: {reasons}");
        }
        let in_kernel = |name: &String| known.get(name).is_some_and(|one| one.path == "kernel");
        if names.iter().all(in_kernel) {
            return Ok(());
        }
        ensure!(start.elapsed() < PATIENCE, "not in the kernel: {known:?}");
        thread::sleep(PAUSE);
    }
}

fn function_names(client: &mut Client) -> Result<Vec<String>> {
    let list = client.ask(&["FUNCTION", "LIST"])?;
    let mut names = Vec::new();
    for library in list.array()? {
        let functions = fields(library)?;
        let functions = functions.get("functions").context("functions")?;
        for function in functions.array()? {
            let function = fields(function)?;
            names.push(function.get("name").context("name")?.text()?.to_owned());
        }
    }
    Ok(names)
}
