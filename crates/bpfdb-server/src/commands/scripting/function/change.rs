//! Changes the libraries of the engine, in one transaction: the client's, or one of its own.

use bpfdb::FUNCTIONS_KEY;

use super::super::super::atomic::{Kind, atomically};
use super::super::super::prelude::*;
use crate::instance::functions::libraries::Libraries;
use crate::values::functions_dump::LIBRARIES_MAX;

/// `work` is given those that there are. If it fails, they stay.
pub(super) fn change(
    context: &mut Context<'_>,
    mut work: impl FnMut(&mut Libraries) -> Outcome,
) -> Outcome {
    let functions = &mut context.instance.functions;
    atomically(context.session, Kind::Write, |session| {
        let old = session.entry_for_update(FUNCTIONS_KEY)?;
        let mut libraries = functions.decode(old.as_ref().map(|old| &*old.value))?;
        work(&mut libraries)?;
        write(session, &libraries)
    })
}

/// These become those that there are, whichever there were.
pub(super) fn replace(context: &mut Context<'_>, libraries: &Libraries) -> Outcome {
    atomically(context.session, Kind::Write, |session| {
        write(session, libraries)
    })
}

fn write(session: &mut bpfdb::Session, libraries: &Libraries) -> Outcome {
    if libraries.bytes() > LIBRARIES_MAX {
        let most = LIBRARIES_MAX >> 20;
        return Err(format!("ERR libraries of functions may have {most} MiB together").into());
    }
    if libraries.len() == 0 {
        session.delete(FUNCTIONS_KEY)?;
    } else {
        session.set(FUNCTIONS_KEY, &libraries.encode())?;
    }
    Ok(())
}
