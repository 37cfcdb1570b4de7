//! SET.

use super::super::arguments::syntax_error;
use super::super::atomic::{Kind, atomically};
use super::super::prelude::*;

pub(crate) static COMMAND: Command = Command {
    name: "set",
    summary: "Set the string value of a key",
    since: "1.0.0",
    group: Group::String,
    complexity: "O(1)",
    arity: -3,
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::String],
    keys: &[Keys::at(1, &["RW", "access", "update", "variable_flags"])
        .notes("RW and ACCESS due to the optional `GET` argument")],
    path: Path::Kernel,
    differences: "With options in user space.",
    run,
    ..Command::BASE
};

/// What may stand behind SET key value.
#[derive(Default)]
struct SetOptions {
    if_absent: bool,
    if_present: bool,
    get: bool,
}

impl SetOptions {
    fn parse(words: &[Vec<u8>]) -> Result<Self, Failure> {
        let mut options = Self::default();
        for word in words {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => options.if_absent = true,
                b"xx" => options.if_present = true,
                b"get" => options.get = true,
                // There is no time to live that it could keep or drop.
                b"keepttl" => {}
                b"ex" | b"px" | b"exat" | b"pxat" => {
                    return Err("ERR keys do not expire in bpfdb".into());
                }
                _ => return Err(syntax_error()),
            }
        }
        if options.if_absent && options.if_present {
            return Err(syntax_error());
        }
        Ok(options)
    }

    fn is_plain(&self) -> bool {
        !(self.if_absent || self.if_present || self.get)
    }
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, value) = (&arguments[0], &arguments[1]);
    let options = SetOptions::parse(&arguments[2..])?;

    if options.is_plain() {
        context.session.set(key, value)?;
        context.replies.ok();
        return Ok(());
    }
    let (old, done) = atomically(context.session, Kind::Write, |session| {
        let old = session.get_for_update(key)?;
        let wanted = match old {
            Some(_) => !options.if_absent,
            None => !options.if_present,
        };
        if wanted {
            session.set(key, value)?;
        }
        Ok((old, wanted))
    })?;
    match old {
        old if options.get => context.replies.bulk_or_null(old.as_deref()),
        _ if done => context.replies.ok(),
        _ => context.replies.null(),
    }
    Ok(())
}
