//! GET, SET, STRLEN, APPEND.

use super::transaction::{Kind, atomically};
use super::{Context, Failure, Outcome};

pub(super) fn get(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    match context.session.get(&arguments[0])? {
        Some(value) => context.replies.bulk(&value),
        None => context.replies.nil(),
    }
    Ok(())
}

pub(super) fn strlen(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let value = context.session.get(&arguments[0])?.unwrap_or_default();
    context.replies.integer(value.len() as i64);
    Ok(())
}

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
                _ => return Err("ERR syntax error".into()),
            }
        }
        if options.if_absent && options.if_present {
            return Err("ERR syntax error".into());
        }
        Ok(options)
    }

    fn is_plain(&self) -> bool {
        !(self.if_absent || self.if_present || self.get)
    }
}

pub(super) fn set(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
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
        Some(old) if options.get => context.replies.bulk(&old),
        None if options.get => context.replies.nil(),
        _ if done => context.replies.ok(),
        _ => context.replies.nil(),
    }
    Ok(())
}

pub(super) fn append(context: &mut Context<'_>, arguments: &[Vec<u8>]) -> Outcome {
    let (key, more) = (&arguments[0], &arguments[1]);
    let len = atomically(context.session, Kind::Write, |session| {
        let mut value = session.get_for_update(key)?.unwrap_or_default();
        value.extend_from_slice(more);
        session.set(key, &value)?;
        Ok(value.len())
    })?;
    context.replies.integer(len as i64);
    Ok(())
}
