//! Changes the libraries of the engine, in one transaction: the client's, or one of its own.

use std::time::Duration;

use bpfdb::FUNCTIONS_KEY;

use super::super::super::atomic::{Kind, atomically};
use super::super::super::prelude::*;
use crate::scripting::functions::libraries::Libraries;
use crate::scripting::functions::{COUNT_MAX, FUNCTIONS_MAX};
use crate::values::functions_dump::LIBRARIES_MAX;

/// How soon it is asked again whether calls in the kernel have ended.
const CALLS_PAUSE: Duration = Duration::from_millis(1);

/// Before any change: no function runs in the kernel, nor will until this one is over. False:
/// some may still; to be asked again.
pub(super) fn withdrawn(context: &mut Context<'_>) -> bool {
    let withdrawn = context.instance.procedures.withdraw_functions();
    if !withdrawn {
        context.rest(CALLS_PAUSE);
    }
    withdrawn
}

/// A change of one step, to be made when functions are withdrawn.
#[derive(Debug)]
pub(super) struct Change(pub(super) fn(&mut Context<'_>, &[Vec<u8>]) -> Outcome);

impl Change {
    /// Makes it now if that is possible, else later.
    pub(super) fn begin(mut self, context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
        if self.step(context, arguments)? == Progress::More {
            context.go_on_with(self);
        }
        Ok(())
    }
}

impl Job for Change {
    fn step(
        &mut self,
        context: &mut Context<'_>,
        arguments: &[Vec<u8>],
    ) -> Result<Progress, Failure> {
        if !withdrawn(context) {
            return Ok(Progress::More);
        }
        (self.0)(context, arguments)?;
        Ok(Progress::Done)
    }
}

/// `work` is given those that there are. If it fails, they stay.
pub(super) fn change(
    context: &mut Context<'_>,
    mut work: impl FnMut(&mut Libraries) -> Outcome,
) -> Outcome {
    let functions = &mut context.instance.functions;
    functions.try_again();
    atomically(context.session, Kind::Write, |session| {
        let old = session.entry_for_update(FUNCTIONS_KEY)?;
        let mut libraries = functions.decode(old.as_ref().map(|old| &*old.value))?;
        let before = (libraries.len(), libraries.functions());
        work(&mut libraries)?;
        write(session, &libraries, before)
    })
}

/// These become those that there are, whichever there were.
pub(super) fn replace(context: &mut Context<'_>, libraries: &Libraries) -> Outcome {
    atomically(context.session, Kind::Write, |session| {
        write(session, libraries, (0, 0))
    })
}

/// Libraries, or functions.
pub(super) fn too_many() -> Failure {
    format!("ERR there may be {COUNT_MAX} libraries, with {FUNCTIONS_MAX} functions in all").into()
}

/// There may be more, of a copy that has more: these may become fewer. `before`: as many as there were,
/// and functions.
fn write(session: &mut bpfdb::Session, libraries: &Libraries, before: (usize, usize)) -> Outcome {
    if libraries.bytes() > LIBRARIES_MAX {
        let most = LIBRARIES_MAX >> 20;
        return Err(format!("ERR libraries of functions may have {most} MiB together").into());
    }
    if libraries.len() > COUNT_MAX.max(before.0)
        || libraries.functions() > FUNCTIONS_MAX.max(before.1)
    {
        return Err(too_many());
    }
    if libraries.len() == 0 {
        session.delete(FUNCTIONS_KEY)?;
    } else {
        session.set(FUNCTIONS_KEY, &libraries.encode())?;
    }
    Ok(())
}
