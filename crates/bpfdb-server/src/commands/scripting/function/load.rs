//! FUNCTION LOAD.

use super::super::super::arguments::is;
use super::super::super::prelude::*;
use super::super::find::view;
use super::CHANGES;
use super::analysis::Analysis;
use super::change::{change, withdrawn};

pub(crate) static COMMAND: Command = Command {
    name: "function|load",
    summary: "Adds a library of functions",
    since: "7.0.0",
    group: Group::Scripting,
    complexity: "O(length of all libraries)",
    arity: -3,
    arguments: "[REPLACE], function-code",
    flags: &[Flag::Write, Flag::DenyOom, Flag::NoScript],
    categories: &[Category::Scripting],
    tips: CHANGES,
    differences: "Part of the transaction, if the client has one open. A library has 1 MiB, all of them have 16.",
    run,
    ..Command::BASE
};

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (text, options) = arguments.split_last().ok_or("ERR syntax error")?;
    if let Some(other) = options.iter().find(|word| !is(word, "replace")) {
        return Err(Failure::Text(
            [b"ERR Unknown option given: ", &other[..]].concat(),
        ));
    }
    let analysis = Analysis::new(std::slice::from_ref(text))?;
    let name = analysis.names()[0].clone();
    let replaces = !options.is_empty();
    // Before the text is run. What is true when the library is written is asked once more.
    if !replaces && view(context)?.has(&name) {
        return Err(exists(&name));
    }
    let mut loading = Loading {
        analysis,
        name,
        replaces,
    };
    if loading.step(context, arguments)? == Progress::More {
        context.go_on_with(loading);
    }
    Ok(())
}

fn exists(name: &[u8]) -> Failure {
    Failure::Text([b"ERR Library '", name, b"' already exists"].concat())
}

#[derive(Debug)]
struct Loading {
    analysis: Analysis,
    name: Vec<u8>,
    replaces: bool,
}

impl Job for Loading {
    fn step(&mut self, context: &mut Context<'_>, _: &[Vec<u8>]) -> Result<Progress, Failure> {
        if self.analysis.step(context)? == Progress::More || !withdrawn(context) {
            return Ok(Progress::More);
        }
        let library = &self.analysis.libraries()[0];
        change(context, |libraries| {
            if !self.replaces && libraries.has(&self.name) {
                return Err(exists(&self.name));
            }
            Ok(libraries.add(library, self.replaces)?)
        })?;
        context.replies.bulk(&self.name);
        Ok(Progress::Done)
    }

    fn memory(&self) -> usize {
        self.analysis.memory()
    }
}
