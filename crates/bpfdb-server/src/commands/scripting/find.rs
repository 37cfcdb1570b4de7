//! Looks up what a request calls: a script by its text or its name, a function of the libraries.

use std::rc::Rc;

use bpfdb_lua::{Flags, Sha1};

use super::super::arguments::number;
use super::super::atomic;
use super::super::prelude::*;
use crate::scripting::functions::Problem;
use crate::scripting::functions::libraries::{FunctionOf, Libraries};
use crate::scripting::scripts::Script;

/// What the first argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Text,
    /// SHA-1 of a text that the server knows.
    Name,
}

/// The function of a request, and how many keys it is given.
pub(super) fn callable(
    libraries: &Libraries,
    arguments: &[Vec<u8>],
    reads: bool,
) -> Result<(FunctionOf, usize), Failure> {
    let function = find_function(libraries, &arguments[0])?;
    let keys = count_keys_of_function(&arguments[1], arguments.len() - 2)?;
    may_be_called(&function, reads)?;
    Ok((function, keys))
}

/// The libraries that the client sees: those of its transaction, if it has one open.
pub(super) fn view(context: &mut Context<'_>) -> Result<Rc<Libraries>, Failure> {
    // Of others' that are not durable yet, perhaps.
    context.connection.tells_of_all = true;
    let functions = &mut context.instance.functions;
    let libraries = if atomic::is_open(context.session) {
        functions.seen_by(context.session)
    } else {
        functions.committed(context.session)
    };
    Ok(libraries?)
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Engine(status) => status.into(),
            Problem::Damaged => {
                "ERR what is kept of the functions is damaged; FUNCTION FLUSH deletes it".into()
            }
        }
    }
}

pub(super) fn find_function(libraries: &Libraries, name: &[u8]) -> Result<FunctionOf, Failure> {
    (libraries.function(name).cloned()).ok_or_else(|| "ERR Function not found".into())
}

fn count_keys_of_function(text: &[u8], rest: usize) -> Result<usize, Failure> {
    if number(text).is_err() {
        return Err("ERR Bad number of keys provided".into());
    }
    count_keys(text, rest)
}

pub(super) fn may_be_called(function: &FunctionOf, reads: bool) -> Outcome {
    may_be_run(function.registered().flags.of_call(), reads)
}

/// `reads`: by a command that may not write.
pub(super) fn may_be_run(flags: Flags, reads: bool) -> Outcome {
    if reads && !flags.is_for_readers() {
        return Err("ERR Can not execute a script with write flag using *_ro command.".into());
    }
    Ok(())
}

pub(super) fn count_keys(text: &[u8], rest: usize) -> Result<usize, Failure> {
    let keys = number(text)?;
    let keys = usize::try_from(keys).map_err(|_| "ERR Number of keys can't be negative")?;
    if keys > rest {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    Ok(keys)
}

const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

/// What is no name at all is refused before the rest of the request is looked at.
pub(super) fn may_be_known(source: Source, word: &[u8]) -> Outcome {
    match source == Source::Name && word.len() != Sha1::DIGITS {
        true => Err(NO_SCRIPT.into()),
        false => Ok(()),
    }
}

pub(super) fn find(
    context: &mut Context<'_>,
    source: Source,
    word: &[u8],
) -> Result<Rc<Script>, Failure> {
    match source {
        Source::Text => load(context, word),
        Source::Name => Sha1::parse(word)
            .and_then(|name| context.instance.scripts.find(name))
            .ok_or_else(|| NO_SCRIPT.into()),
    }
}

/// Keeps a script. If others are forgotten for it, the kernel does not run them any more.
pub(super) fn load(context: &mut Context<'_>, text: &[u8]) -> Result<Rc<Script>, Failure> {
    let script = context.instance.scripts.load(text)?;
    if context.instance.scripts.take_forgotten() {
        context.instance.procedures.forget_scripts();
    }
    Ok(script)
}

// ---- Before it is called: may it write? What is not known may ----------------------------

pub(super) fn text_may_write(text: &[u8]) -> bool {
    bpfdb_lua::flags(text).map_or(true, |flags| !flags.no_writes)
}

pub(super) fn script_may_write(context: &Context<'_>, name: &[u8]) -> bool {
    let script = Sha1::parse(name).and_then(|name| context.instance.scripts.find(name));
    script.is_none_or(|script| !script.flags.no_writes)
}

pub(super) fn function_may_write(context: &mut Context<'_>, name: &[u8]) -> bool {
    let libraries = view(context).ok();
    let function = libraries
        .as_ref()
        .and_then(|libraries| libraries.function(name));
    function.is_none_or(|function| !function.registered().flags.of_call().no_writes)
}
