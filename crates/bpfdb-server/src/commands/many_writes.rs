//! Writes of many keys, all at one moment: at once, or [in slices](super::in_slices) if they are
//! many.

use std::fmt::Debug;

use bpfdb::{Session, Status};

use super::atomic::{Kind, atomically, is_open};
use super::context::{Context, Failure, Outcome};
use super::in_slices::{InSlices, Work};
use super::time_slice::TimeSlice;

/// Keys that are written at once; more of them are written in slices.
const KEYS: usize = 256;
/// Keys between two looks at the clock.
const KEYS_AT_ONCE: usize = 32;

/// What a command does to its keys.
pub(super) trait Writer: Debug + Default + 'static {
    /// Words of the request for one key: it, and its value perhaps.
    const WORDS: usize;
    /// To one key; keys come in the order of the request. Done again to all of them, from the first one
    /// on, it does the same.
    fn write(&mut self, session: &mut Session, words: &[Vec<u8>]) -> Outcome;
    /// Does it free memory? Then it is done without a transaction, key by key, should there be no
    /// memory for the locks of one.
    const FREES: bool = false;
    /// All were written.
    fn reply(&self, context: &mut Context<'_>);
}

/// Writes the keys: at once, if they are few.
pub(super) fn write_many<W: Writer>(context: &mut Context<'_>, words: &[Vec<u8>]) -> Outcome {
    if words.len() / W::WORDS > KEYS {
        let work = InSlices::new(context.session, Keys::<W>::default());
        context.go_on_with(work);
        return Ok(());
    }
    let writer = atomically(context.session, Kind::Repeatable, |session| {
        let mut writer = W::default();
        for words in words.chunks(W::WORDS) {
            writer.write(session, words)?;
        }
        Ok(writer)
    });
    match writer {
        Err(Failure::Engine(Status::OutOfMemory)) if W::FREES && !is_open(context.session) => {
            context.go_on_with(InSlices::without_transaction(Keys::<W>::default()));
        }
        // It waits for memory, and leaves the transaction when there is none in the end.
        Err(Failure::Engine(Status::MemoryPending)) if W::FREES && !is_open(context.session) => {
            let work = InSlices::new(context.session, Keys::<W>::default());
            context.go_on_with(work);
        }
        writer => writer?.reply(context),
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Keys<W> {
    writer: W,
    /// The next key.
    next: usize,
}

impl<W: Writer> Work for Keys<W> {
    const GOES_ON: bool = true;

    fn writes(&self) -> bool {
        true
    }

    fn advance(
        &mut self,
        session: &mut Session,
        words: &[Vec<u8>],
        slice: TimeSlice,
    ) -> Result<bool, Failure> {
        while self.next * W::WORDS < words.len() {
            if slice.is_over() {
                return Ok(false);
            }
            self.write_some(session, words)?;
        }
        Ok(true)
    }

    fn restart(&mut self) {
        *self = Self::default();
    }

    fn reply(&mut self, context: &mut Context<'_>) {
        self.writer.reply(context);
    }

    fn leaves_transaction(&self, status: Status) -> bool {
        W::FREES && status == Status::OutOfMemory
    }
}

impl<W: Writer> Keys<W> {
    fn write_some(&mut self, session: &mut Session, words: &[Vec<u8>]) -> Outcome {
        let left = words[self.next * W::WORDS..].chunks(W::WORDS);
        for words in left.take(KEYS_AT_ONCE) {
            self.writer.write(session, words)?;
            self.next += 1;
        }
        Ok(())
    }
}
