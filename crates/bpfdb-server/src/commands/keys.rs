//! DEL, EXISTS, MGET, MSET: any number of keys, all at one moment.

use super::transaction::{Kind, atomically};
use super::{Context, Outcome, wrong_arity};

/// Longest reply to one MGET, bytes.
const REPLY_MAX: usize = 64 << 20;

pub(super) fn del(context: &mut Context<'_>, keys: &[Vec<u8>]) -> Outcome {
    let deleted = if let [key] = keys {
        i64::from(context.session.delete(key)?)
    } else {
        atomically(context.session, Kind::Write, |session| {
            let mut deleted = 0;
            for key in keys {
                deleted += i64::from(session.delete(key)?);
            }
            Ok(deleted)
        })?
    };
    context.replies.integer(deleted);
    Ok(())
}

pub(super) fn exists(context: &mut Context<'_>, keys: &[Vec<u8>]) -> Outcome {
    let found = atomically(context.session, Kind::Read, |session| {
        let mut found = 0;
        for key in keys {
            found += i64::from(session.get(key)?.is_some());
        }
        Ok(found)
    })?;
    context.replies.integer(found);
    Ok(())
}

pub(super) fn mget(context: &mut Context<'_>, keys: &[Vec<u8>]) -> Outcome {
    let replies = &mut *context.replies;
    let start = replies.len();
    atomically(context.session, Kind::Read, |session| {
        replies.truncate(start);
        replies.array(keys.len());
        for key in keys {
            match session.get(key)? {
                Some(value) => replies.bulk(&value),
                None => replies.nil(),
            }
            if replies.len() - start > REPLY_MAX {
                return Err("ERR reply is longer than 64 MiB; ask for fewer keys".into());
            }
        }
        Ok(())
    })
}

pub(super) fn mset(context: &mut Context<'_>, pairs: &[Vec<u8>]) -> Outcome {
    if !pairs.len().is_multiple_of(2) {
        return Err(wrong_arity("mset"));
    }
    atomically(context.session, Kind::Write, |session| {
        for pair in pairs.chunks(2) {
            session.set(&pair[0], &pair[1])?;
        }
        Ok(())
    })?;
    context.replies.ok();
    Ok(())
}
