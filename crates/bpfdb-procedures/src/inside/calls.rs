//! Calls as the kernel takes them (`struct bpfdb_calls`), and their way there.

use bpfdb::{Program, Session, Status, abi};

use super::Library;
use super::error::{CallError, Failure};
use super::reply::{self, Replies};

const RUN: usize = size_of::<abi::bpfdb_calls>();
const CALL: usize = size_of::<abi::bpfdb_call>();
/// Bytes of calls that go into the buffer at once.
const ROOM: usize = abi::BPFDB_CALLS_SIZE as usize - RUN;
const WORDS: usize = abi::BPFDB_CALL_WORDS as usize;
const BYTES: usize = abi::BPFDB_CALL_WORDS_BYTES as usize;

/// Calls of functions of one library, and their replies. Fill it, [run](Self::run) it, clear
/// it: it keeps its memory, so the next round allocates nothing. It may have any number of
/// calls; one system call executes as many as take 176 KiB, about a thousand short ones.
#[derive(Debug)]
pub struct Calls {
    library: Library,
    /// One behind the other, as `struct bpfdb_call`.
    calls: Vec<u8>,
    count: usize,
    /// Where those begin that do not fit into the buffer with the ones before.
    parts: Vec<usize>,
    replies: Vec<u8>,
    /// Calls that have a reply.
    done: usize,
}

impl Calls {
    pub(super) fn new(library: &Library) -> Self {
        Self {
            library: library.clone(),
            calls: Vec::new(),
            count: 0,
            parts: Vec::new(),
            replies: Vec::new(),
            done: 0,
        }
    }

    /// Adds a call behind the others, as [`Library::call`] takes it.
    ///
    /// # Errors
    /// If there can be no such call; the others stay.
    pub fn add(
        &mut self,
        function: &str,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> Result<(), CallError> {
        let ready = self.library.unit.find(function)?;
        let (number, reads) = (ready.number, u32::from(ready.reads));
        if keys.len() > WORDS || arguments.len() > WORDS {
            return Err(CallError::TooManyWords);
        }
        let words = || keys.iter().chain(arguments);
        let bytes: usize = words().map(|word| word.len().next_multiple_of(8)).sum();
        if bytes > BYTES {
            return Err(CallError::TooLong);
        }
        let size = CALL + lengths(keys.len() + arguments.len()) + bytes;
        let begin = self.parts.last().copied().unwrap_or(0);
        if self.calls.len() - begin + size > ROOM {
            self.parts.push(self.calls.len());
        }
        self.calls.reserve(size);
        let (keys, arguments) = (keys.len() as u32, arguments.len() as u32);
        for word in [number, reads, keys, arguments, bytes as u32, 0] {
            self.calls.extend_from_slice(&word.to_ne_bytes());
        }
        for word in words() {
            let len = word.len() as u32;
            self.calls.extend_from_slice(&len.to_ne_bytes());
        }
        self.pad();
        for word in words() {
            self.calls.extend_from_slice(word);
            self.pad();
        }
        self.count += 1;
        Ok(())
    }

    fn pad(&mut self) {
        let len = self.calls.len().next_multiple_of(8);
        self.calls.resize(len, 0);
    }

    /// How many were added.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes all calls and replies away, and keeps the memory.
    pub fn clear(&mut self) {
        self.calls.clear();
        self.count = 0;
        self.parts.clear();
        self.forget_replies();
    }

    fn forget_replies(&mut self) {
        self.replies.clear();
        self.done = 0;
    }

    /// Executes all calls in their order, each as a transaction of its own, and waits for their
    /// end. A call that fails keeps the others from nothing. Run again, the same calls are
    /// executed once more.
    ///
    /// # Errors
    /// [`CallError::InTransaction`], [`CallError::OtherEngine`]: nothing was executed.
    /// [`CallError::System`]: those were executed that [`Calls::replies`] has replies of, which
    /// may be all of them, and no others.
    pub fn run(&mut self, session: &mut Session) -> Result<Replies<'_>, CallError> {
        self.forget_replies();
        if !session.is_of(&self.library.engine) {
            return Err(CallError::OtherEngine);
        }
        // Without a program there is no function that could have been added.
        if let Some(program) = self.library.program.clone() {
            let mut begin = 0;
            for part in 0..=self.parts.len() {
                let end = self.parts.get(part).copied().unwrap_or(self.calls.len());
                self.run_part(session, &program, begin, end)?;
                begin = end;
            }
        }
        Ok(self.replies())
    }

    /// The replies of the last run.
    pub fn replies(&self) -> Replies<'_> {
        Replies::new(&self.replies, self.done)
    }

    /// Executes the calls between these two places, which fit into the buffer.
    fn run_part(
        &mut self,
        session: &mut Session,
        program: &Program,
        begin: usize,
        end: usize,
    ) -> Result<(), CallError> {
        let (mut at, mut attempt) = (begin, 0);
        while at < end {
            let (executed, ended) = self.run_once(session, program, at, end)?;
            if executed > 0 {
                at += executed;
                attempt = 0;
            }
            let Some(status) = ended else { continue };
            if session.await_passing(status, attempt) {
                attempt += 1;
                continue;
            }
            self.replies
                .extend_from_slice(&reply::failed(status.code()));
            self.done += 1;
            at += self.size_at(at);
            attempt = 0;
        }
        Ok(())
    }

    /// One system call: bytes of the calls that it has executed, and the Error of the next one,
    /// which has left nothing and may be tried again.
    fn run_once(
        &mut self,
        session: &mut Session,
        program: &Program,
        at: usize,
        end: usize,
    ) -> Result<(usize, Option<Status>), CallError> {
        let before = [
            RUN as u32,
            (RUN + end - at) as u32,
            abi::BPFDB_CALLS_SIZE,
            0,
            0,
            abi::BPFDB_CALLS_FUEL,
        ];
        let mut run = [0; RUN];
        for (to, word) in run.chunks_exact_mut(4).zip(before) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        let request = [&run[..], &self.calls[at..end]];
        let (code, buffer) = session.run_in_buffer(program, &request).map_err(refused)?;
        let after = Run::of(buffer).ok_or(Failure::CORRUPT)?;
        let replies = buffer.get(abi::BPFDB_CALLS_SIZE as usize..after.to);
        self.replies
            .extend_from_slice(replies.ok_or(Failure::CORRUPT)?);
        self.done += after.done;
        let executed = after.at.checked_sub(RUN).ok_or(Failure::CORRUPT)?;
        let ended = match after.status.max(code) {
            0 => None,
            code => Some(Status::from_code(code).unwrap_or(Status::Corrupt)),
        };
        match ended {
            // It would go on for ever.
            None if executed == 0 => Err(Failure::CORRUPT.into()),
            ended => Ok((executed, ended)),
        }
    }

    /// Bytes of the call at this place.
    fn size_at(&self, at: usize) -> usize {
        let word = |number: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&self.calls[at + number * 4..][..4]);
            u32::from_ne_bytes(word) as usize
        };
        CALL + lengths(word(2) + word(3)) + word(4)
    }
}

/// Bytes of so many lengths.
fn lengths(words: usize) -> usize {
    (words * 4).next_multiple_of(8)
}

/// What [`abi::bpfdb_calls`] says when the program has ended.
struct Run {
    at: usize,
    to: usize,
    done: usize,
    status: u32,
}

impl Run {
    fn of(buffer: &[u8]) -> Option<Self> {
        let mut words = buffer.get(..RUN)?.chunks_exact(4);
        let mut next = || Some(u32::from_ne_bytes(words.next()?.try_into().ok()?));
        let [at, _, to, done, status] = [next()?, next()?, next()?, next()?, next()?];
        Some(Self {
            at: at as usize,
            to: to as usize,
            done: done as usize,
            status,
        })
    }
}

fn refused(error: bpfdb::Error) -> CallError {
    match error {
        bpfdb::Error::Engine(Status::WrongState) => CallError::InTransaction,
        error => CallError::System(error),
    }
}
