//! One value for each of many keys, all at one moment, in slices: a job for commands
//! that read.

use bpfdb::{Session, Status};

use super::atomic::{Kind, atomically, is_open};
use super::cold;
use super::context::{Context, Failure, Outcome};
use super::job::{Job, Progress};
use crate::protocol::reply::Protocol;

/// Keys, and bytes of values, of one step.
const KEYS: usize = 256;
const BYTES: usize = 512 * 1024;

/// What a command makes of the values.
pub(super) trait Reader: std::fmt::Debug {
    /// Are values wanted, or only whether there is one?
    const VALUES: bool = true;
    /// Do the look-ups count as accesses? `None`: unless the client has said CLIENT NO-TOUCH.
    const TRACKED: Option<bool> = None;
    /// For so many keys.
    fn new(protocol: Protocol, keys: usize) -> Self;
    /// Of one key; keys come in the order of the request.
    fn take(&mut self, value: Option<Vec<u8>>) -> Outcome;
    /// All were taken.
    fn reply(&mut self, context: &mut Context<'_>);
    /// Bytes that it keeps.
    fn memory(&self) -> usize {
        0
    }
}

/// Reads the keys: at once, if they are few.
pub(super) fn read_many<R: Reader + 'static>(
    context: &mut Context<'_>,
    keys: &[Vec<u8>],
) -> Outcome {
    let protocol = context.replies.protocol();
    if keys.len() > KEYS {
        context.go_on_with(Reading::<R>::new(protocol, keys.len()));
        return Ok(());
    }
    let mut read = atomically(context.session, Kind::Read, |session| {
        let mut reader = R::new(protocol, keys.len());
        for key in keys {
            reader.take(read_one::<R>(session, key)?)?;
        }
        Ok(reader)
    })?;
    read.reply(context);
    Ok(())
}

fn read_one<R: Reader>(session: &mut Session, key: &[u8]) -> Result<Option<Vec<u8>>, Status> {
    if R::VALUES {
        match session.get(key) {
            // As in Redis, MGET has no error for a key: what is no string is not there.
            Err(Status::WrongType) => Ok(None),
            read => read,
        }
    } else {
        let head = match R::TRACKED {
            Some(tracked) => session.tracked(tracked, |session| session.head(key)),
            None => session.head(key),
        };
        Ok(head?.map(|_| Vec::new()))
    }
}

#[derive(Debug)]
struct Reading<R> {
    reader: R,
    /// The key to be read next.
    next: usize,
    /// The transaction is ours.
    own: bool,
}

impl<R: Reader> Reading<R> {
    fn new(protocol: Protocol, keys: usize) -> Self {
        Self {
            reader: R::new(protocol, keys),
            next: 0,
            own: false,
        }
    }

    /// Some of the keys: are all read?
    fn read(&mut self, session: &mut Session, keys: &[Vec<u8>]) -> Result<bool, Failure> {
        if self.next == 0 && !is_open(session) {
            session.begin_read_only()?;
            self.own = true;
        }
        let mut bytes = 0;
        for key in keys[self.next..].iter().take(KEYS) {
            let value = read_one::<R>(session, key)?;
            // It is not read again for a cold value that comes behind it.
            session.take_reads();
            bytes += value.as_ref().map_or(0, Vec::len);
            self.reader.take(value)?;
            self.next += 1;
            if bytes > BYTES {
                break;
            }
        }
        let all = self.next == keys.len();
        if all && self.own {
            session.commit()?;
        }
        Ok(all)
    }
}

impl<R: Reader> Job for Reading<R> {
    fn step(&mut self, context: &mut Context<'_>, keys: &[Vec<u8>]) -> Result<Progress, Failure> {
        match self.read(context.session, keys) {
            Ok(false) => Ok(Progress::More),
            Ok(true) => {
                self.reader.reply(context);
                Ok(Progress::Done)
            }
            // It goes on with this key, in the same snapshot.
            Err(failure) if cold::waits(context, &failure) => Err(failure),
            // Another try begins anew.
            Err(failure) => {
                if self.own {
                    context.session.rollback()?;
                }
                *self = Self::new(context.replies.protocol(), keys.len());
                Err(failure)
            }
        }
    }

    fn keys_done(&self) -> usize {
        self.next
    }

    fn memory(&self) -> usize {
        self.reader.memory()
    }
}
