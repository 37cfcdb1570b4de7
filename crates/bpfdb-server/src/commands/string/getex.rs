//! GETEX.

use super::super::arguments::{is, syntax_error};
use super::super::expiry::Form;
use super::super::prelude::*;
use super::super::update::{Write, update};

pub(crate) static COMMAND: Command = Command {
    name: "getex",
    summary: "Reads a value and changes when it expires",
    since: "6.2.0",
    group: Group::String,
    complexity: "O(length of the value)",
    arity: -2,
    arguments: "key:key, [expiration(EX seconds:integer|PX milliseconds:integer|EXAT unix-time-seconds:unix-time|PXAT unix-time-milliseconds:unix-time|PERSIST)]",
    flags: &[Flag::Write, Flag::Fast],
    categories: &[Category::String],
    keys: &[
        Keys::at(1, &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update])
            .notes("written with an option only"),
    ],
    events: Events::By(tell),
    misses: Misses::All,
    run,
    ..Command::BASE
};

/// What becomes of the time at which the value expires.
#[derive(Clone, Copy, Debug)]
enum Change<'a> {
    Nothing,
    Persist,
    At(Form, &'a [u8]),
}

impl<'a> Change<'a> {
    fn parse(words: &'a [Vec<u8>]) -> Result<Self, Failure> {
        let form = |word: &[u8]| Form::parse(&word.to_ascii_lowercase());
        let mut change = Self::Nothing;
        let mut rest = words;
        while let Some((word, behind)) = rest.split_first() {
            rest = match (change, behind) {
                (Self::Nothing | Self::Persist, _) if is(word, "persist") => {
                    change = Self::Persist;
                    behind
                }
                (Self::Nothing, [time, behind @ ..]) => {
                    change = Self::At(form(word).ok_or_else(syntax_error)?, time);
                    behind
                }
                // The same form may be given again.
                (Self::At(before, _), [time, behind @ ..]) if form(word) == Some(before) => {
                    change = Self::At(before, time);
                    behind
                }
                _ => return Err(syntax_error()),
            };
        }
        Ok(change)
    }
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let key = &arguments[0];
    let change = Change::parse(&arguments[1..])?;
    // Without a value the time is not checked.
    let deadline = match change {
        Change::Nothing => return super::get::run(context, arguments),
        Change::Persist => Ok(None),
        Change::At(form, text) => form.deadline(context, COMMAND.name, text).map(Some),
    };
    let now = context.engine.now_ms();
    let value = update(context.session, key, |old| {
        let Some(old) = old else {
            return Ok((Write::Nothing, None));
        };
        let expires_at = deadline.clone()?;
        // The same time is a write, too, as in Redis.
        let write = match (old.expires_at, expires_at) {
            (None, None) => Write::Nothing,
            (_, Some(time)) if time <= now => Write::Delete,
            _ => Write::Set(old.value.clone().into(), expires_at),
        };
        Ok((write, Some(old.value)))
    })?;
    context.instance.statistics.got(value.is_some());
    context.replies.bulk_or_null(value.as_deref());
    Ok(())
}

fn tell(told: &mut Told<'_>) {
    let persists = matches!(Change::parse(&told.arguments[1..]), Ok(Change::Persist));
    for change in told.changes {
        match change {
            bpfdb::Change::Set { key, .. } if persists => told.tell_generic("persist", key),
            bpfdb::Change::Set { key, .. } => told.tell_generic("expire", key),
            bpfdb::Change::Deleted { key } => told.tell_generic("del", key),
            other => told.tell_other(other),
        }
    }
}
