//! Programs of Lua, and the listings of what they become.

mod commands;
mod expressions;
mod functions;
mod reasons;
mod robustness;
mod scripts;
mod statements;

use super::Unsupported;

/// Compiles a script, and compares its listing.
#[track_caller]
fn script(text: &str, listing: &str) {
    let function = super::script(text.trim_start().as_bytes());
    compare(&shown(function), listing);
}

/// Compiles a library, and compares the listings of all its functions.
#[track_caller]
fn library(text: &str, listings: &str) {
    compare(&self::listings(text), listings);
}

/// The listings of all functions of a library.
fn listings(text: &str) -> String {
    let functions = super::library(text.trim_start().as_bytes()).expect("it can be read");
    functions
        .into_iter()
        .map(|function| match function.outcome {
            Ok(function) => function.to_string(),
            Err(problems) => {
                let name = function.name.escape_ascii();
                let problems = problems.iter().map(|problem| format!("  {problem}\n"));
                format!("{name}:\n{}", problems.collect::<String>())
            }
        })
        .collect()
}

fn shown(function: Result<crate::ir::Function, Vec<Unsupported>>) -> String {
    match function {
        Ok(function) => function.to_string(),
        Err(problems) => problems
            .iter()
            .map(|problem| format!("{problem}\n"))
            .collect(),
    }
}

#[track_caller]
fn compare(listing: &str, expected: &str) {
    let expected = expected.trim_start_matches('\n');
    assert!(
        listing == expected,
        "\n--- is\n{listing}\n--- should be\n{expected}"
    );
}
