//! SET.

use super::super::arguments::{is, syntax_error};
use super::super::expiry::Form;
use super::super::prelude::*;
use super::super::update::{Accepts, Write, update_of};

pub(crate) static COMMAND: Command = Command {
    name: "set",
    summary: "Sets a value: always, or under a condition; for ever, or for a time",
    since: "1.0.0",
    group: Group::String,
    complexity: "O(length of the value)",
    arity: -3,
    arguments: "key:key, value, [condition(NX|XX)@2.6.12], [GET@6.2.0], [expiration(EX seconds:integer@2.6.12|PX milliseconds:integer@2.6.12|EXAT unix-time-seconds:unix-time@6.2.0|PXAT unix-time-milliseconds:unix-time@6.2.0|KEEPTTL@6.0.0)]",
    flags: &[Flag::Write, Flag::DenyOom],
    categories: &[Category::String],
    keys: &[Keys::at(
        1,
        &[
            KeyFlag::ReadWrite,
            KeyFlag::Access,
            KeyFlag::Update,
            KeyFlag::VariableFlags,
        ],
    )
    .notes("read with the option GET only")
    .depending(key_flags)],
    batching: Batching::Writes,
    events: Events::By(tell),
    misses: Misses::If(gets),
    run,
    ..Command::BASE
};

/// With GET the old value is read.
fn key_flags(words: &[Vec<u8>]) -> KeyFlags {
    let options = words.get(3..).unwrap_or_default();
    if options.iter().any(|option| is(option, "get")) {
        &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update]
    } else {
        &[KeyFlag::Overwrite, KeyFlag::Update]
    }
}

/// What becomes of the time at which the value expires.
#[derive(Clone, Copy, Debug, Default)]
enum Expiry<'a> {
    #[default]
    Drop,
    Keep,
    At(Form, &'a [u8]),
}

/// What may stand behind SET key value.
#[derive(Debug, Default)]
struct Options<'a> {
    if_absent: bool,
    if_present: bool,
    get: bool,
    expiry: Expiry<'a>,
}

impl<'a> Options<'a> {
    fn parse(mut words: &'a [Vec<u8>]) -> Result<Self, Failure> {
        let mut options = Self::default();
        while let Some((word, behind)) = words.split_first() {
            words = behind;
            let option = word.to_ascii_lowercase();
            match (&*option, options.expiry) {
                (b"nx", _) if !options.if_present => options.if_absent = true,
                (b"xx", _) if !options.if_absent => options.if_present = true,
                (b"get", _) => options.get = true,
                (b"keepttl", Expiry::Drop | Expiry::Keep) => options.expiry = Expiry::Keep,
                (option, before) => {
                    let form = allowed(Form::parse(option), before).ok_or_else(syntax_error)?;
                    let (time, behind) = words.split_first().ok_or_else(syntax_error)?;
                    options.expiry = Expiry::At(form, time);
                    words = behind;
                }
            }
        }
        Ok(options)
    }

    /// Does it matter what was there before?
    fn is_plain(&self) -> bool {
        !(self.if_absent || self.if_present || self.get || matches!(self.expiry, Expiry::Keep))
    }
}

/// The same form may be given again, another one not.
fn allowed(form: Option<Form>, before: Expiry<'_>) -> Option<Form> {
    form.filter(|&form| match before {
        Expiry::Drop => true,
        Expiry::Keep => false,
        Expiry::At(other, _) => form == other,
    })
}

fn run(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, value) = (&arguments[0], &arguments[1]);
    let options = Options::parse(&arguments[2..])?;
    let expires_at = match options.expiry {
        Expiry::At(form, text) => Some(form.deadline(context, COMMAND.name, text)?),
        Expiry::Drop | Expiry::Keep => None,
    };
    if options.is_plain() {
        context.session.set_entry(key, value, expires_at)?;
        context.replies.ok();
        return Ok(());
    }
    let accepts = match options.get {
        true => Accepts::Strings,
        false => Accepts::AnyType,
    };
    let (old, done) = update_of(context.session, key, accepts, |old| {
        let wanted = match old {
            Some(_) => !options.if_absent,
            None => !options.if_present,
        };
        let kept = old.as_ref().and_then(|old| old.expires_at);
        let keep = matches!(options.expiry, Expiry::Keep);
        let write = if wanted {
            Write::Set(value.into(), if keep { kept } else { expires_at })
        } else {
            Write::Nothing
        };
        Ok((write, (old, wanted)))
    })?;
    match old {
        old if options.get => {
            context.instance.statistics.got(old.is_some());
            context
                .replies
                .bulk_or_null(old.as_ref().map(|old| &*old.value));
        }
        _ if done => context.replies.ok(),
        _ => context.replies.null(),
    }
    Ok(())
}

/// Is there the option GET?
fn gets(arguments: &[Vec<u8>]) -> bool {
    arguments[2..].iter().any(|option| is(option, "get"))
}

fn tell(told: &mut Told<'_>) {
    let options = Options::parse(&told.arguments[2..]);
    let expires = options.is_ok_and(|options| matches!(options.expiry, Expiry::At(..)));
    tell_set(told, expires);
}

/// Of a command that gives the value a time to expire.
pub(super) fn tell_expiring(told: &mut Told<'_>) {
    tell_set(told, true);
}

fn tell_set(told: &mut Told<'_>, expires: bool) {
    for change in told.changes {
        told.tell_change(change, "set");
        if let (true, bpfdb::Change::Set { key, .. }) = (expires, change) {
            told.tell_generic("expire", key);
        }
    }
}
