//! FUNCTION RESTORE.

use std::rc::Rc;

use super::super::super::arguments::is;
use super::super::super::prelude::*;
use super::super::super::table::wrong_subcommand_arity;
use super::super::find::view;
use super::CHANGES;
use super::analysis::Analysis;
use super::change::{change, replace, too_many, withdrawn};
use crate::scripting::functions::COUNT_MAX;
use crate::scripting::functions::libraries::{Libraries, Library};
use crate::values::functions_dump::{self, Damage};

pub(crate) static COMMAND: Command = Command {
    name: "function|restore",
    summary: "Adds the libraries that FUNCTION DUMP has written",
    since: "7.0.0",
    group: Group::Scripting,
    complexity: "O(length of all libraries)",
    arity: -3,
    arguments: "serialized-value, [policy(FLUSH|APPEND|REPLACE)]",
    flags: &[Flag::Write, Flag::DenyOom, Flag::NoScript],
    categories: &[Category::Scripting],
    tips: CHANGES,
    differences: "As FUNCTION LOAD.",
    run,
    ..Command::BASE
};

/// What becomes of libraries that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Flush,
    Append,
    Replace,
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let policy = match &arguments[1..] {
        [] => Policy::Append,
        [word] if is(word, "append") => Policy::Append,
        [word] if is(word, "replace") => Policy::Replace,
        [word] if is(word, "flush") => Policy::Flush,
        [_] => {
            return Err(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."
                    .into(),
            );
        }
        _ => return Err(wrong_subcommand_arity(context, "FUNCTION")),
    };
    let texts = functions_dump::decode(&arguments[0]).map_err(failure)?;
    if texts.len() > COUNT_MAX {
        return Err(too_many());
    }
    let mut restoring = Restoring {
        analysis: Analysis::new(&texts)?,
        policy,
        new: None,
        may_fit: false,
    };
    if restoring.step(context, arguments)? == Progress::More {
        context.go_on_with(restoring);
    }
    Ok(())
}

fn failure(damage: Damage) -> Failure {
    match damage {
        Damage::Envelope => "ERR DUMP payload version or checksum are wrong",
        Damage::Type => "ERR given type is not a function",
        Damage::Old => "ERR Pre-GA function format not supported",
        Damage::Content => "ERR Failed loading library payload",
        Damage::TooLong => "ERR libraries of functions may have 16 MiB together",
    }
    .into()
}

#[derive(Debug)]
struct Restoring {
    analysis: Analysis,
    policy: Policy,
    /// All of them, when they are understood.
    new: Option<Rc<Libraries>>,
    /// They went with those that there were, when that was asked first.
    may_fit: bool,
}

impl Job for Restoring {
    fn step(&mut self, context: &mut Context<'_>, _: &[Vec<u8>]) -> Result<Progress, Failure> {
        if self.analysis.step(context)? == Progress::More {
            return Ok(Progress::More);
        }
        let new = match &self.new {
            Some(new) => Rc::clone(new),
            None => Rc::clone(
                self.new
                    .insert(Rc::new(together(self.analysis.libraries())?)),
            ),
        };
        if self.policy == Policy::Append && !self.may_fit {
            // Before functions are taken out of the kernel for it. What is true when the libraries
            // are written is asked once more.
            let mut libraries = Libraries::clone(&*view(context)?);
            join(&mut libraries, &new, false)?;
            self.may_fit = true;
        }
        if !withdrawn(context) {
            return Ok(Progress::More);
        }
        if self.policy == Policy::Flush {
            replace(context, &new)?;
        } else {
            let replaces = self.policy == Policy::Replace;
            change(context, |libraries| join(libraries, &new, replaces))?;
        }
        context.replies.ok();
        Ok(Progress::Done)
    }

    fn memory(&self) -> usize {
        self.analysis.memory()
    }
}

/// The payload's own, which must not contradict each other.
fn together(all: &[Rc<Library>]) -> Result<Libraries, Failure> {
    let mut libraries = Libraries::default();
    for library in all {
        if libraries.has(&library.name) {
            let name = &library.name[..];
            return Err(Failure::Text(
                [b"ERR Library '", name, b"' already exists"].concat(),
            ));
        }
        libraries.add(library, false)?;
    }
    Ok(libraries)
}

fn join(libraries: &mut Libraries, new: &Libraries, replaces: bool) -> Outcome {
    if replaces {
        // All of them first: functions may move from one library to another.
        for library in new.all() {
            libraries.remove(&library.name);
        }
    }
    for library in new.all() {
        libraries.add(library, false)?;
    }
    Ok(())
}
