//! Durable writes that are under way at once.
//!
//! A disk that takes long for a write with its flush takes little longer for several of them, if
//! they do not wait for each other. Which of them ends first is open: whoever submits them must
//! not take one for a part of the log before all earlier ones have ended, too.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};

use crate::disk::DiskFile;
use crate::disk::buffer::AlignedBuffer;

/// A write of whole blocks, which is durable when it has ended well.
pub struct QueuedWrite<F> {
    /// Chosen by the caller; [`CompletedWrite`] has it again.
    pub id: u64,
    pub file: Arc<F>,
    /// In the file, in bytes: a multiple of a block.
    pub offset: u64,
    pub bytes: AlignedBuffer,
}

/// A write that has ended.
pub struct CompletedWrite {
    pub id: u64,
    /// What was to be written: memory for the next write.
    pub bytes: AlignedBuffer,
    /// That of [`DiskFile::write_flushed`].
    pub result: io::Result<()>,
}

/// Writes to files of one disk. When it is dropped, none is under way any more.
pub trait WriteQueue<F>: Send {
    /// Begins a write, and does not wait for its end. No two that are under way may overlap in
    /// the file.
    fn submit(&mut self, write: QueuedWrite<F>);

    /// A write that has ended, each once and in any order. `None`: none has ended since. If it
    /// `waits`, that means that none is under way.
    fn completed(&mut self, waits: bool) -> Option<CompletedWrite>;
}

/// A queue whose writes are made by threads, one for each that is under way. They are started when
/// they are needed, with the priority of the thread that submits. At the end of each write
/// that thread is unparked.
pub struct ThreadQueue<F> {
    shared: Arc<Shared<F>>,
    threads: Vec<JoinHandle<()>>,
    /// Most threads.
    most: usize,
}

struct Shared<F> {
    state: Mutex<State<F>>,
    submitted: Condvar,
    ended: Condvar,
}

struct State<F> {
    /// No thread has taken them yet.
    submitted: VecDeque<QueuedWrite<F>>,
    /// Writes that threads are making.
    running: usize,
    completed: VecDeque<CompletedWrite>,
    /// Threads that have nothing to do.
    idle: usize,
    caller: Option<Thread>,
    ends: bool,
}

impl<F: DiskFile + Send + Sync + 'static> ThreadQueue<F> {
    /// At most so many writes are made at once; others wait for their turn.
    pub fn new(most: usize) -> Self {
        let state = State {
            submitted: VecDeque::new(),
            running: 0,
            completed: VecDeque::new(),
            idle: 0,
            caller: None,
            ends: false,
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                submitted: Condvar::new(),
                ended: Condvar::new(),
            }),
            threads: Vec::new(),
            most: most.max(1),
        }
    }

    /// Starts a thread. If there can be none at all, this thread writes.
    fn add_thread(&mut self) {
        let shared = Arc::clone(&self.shared);
        let spawned = thread::Builder::new()
            .name("bpfdb-log-write".into())
            .spawn(move || shared.serve());
        match spawned {
            Ok(thread) => self.threads.push(thread),
            Err(error) if self.threads.is_empty() => {
                tracing::warn!(%error, "the log has no thread for a write");
                drop(self.shared.write_one(self.shared.lock()));
            }
            Err(error) => tracing::debug!(%error, "a write of the log waits for another"),
        }
    }
}

impl<F: DiskFile> Shared<F> {
    fn lock(&self) -> MutexGuard<'_, State<F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread does until the queue ends.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            state.idle += 1;
            let woken = self
                .submitted
                .wait_while(state, |state| state.submitted.is_empty() && !state.ends);
            state = woken.unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            if state.submitted.is_empty() {
                return;
            }
            state = self.write_one(state);
        }
    }

    /// Makes the write that was submitted first, if there is one.
    fn write_one<'a>(&'a self, mut state: MutexGuard<'a, State<F>>) -> MutexGuard<'a, State<F>> {
        let Some(write) = state.submitted.pop_front() else {
            return state;
        };
        state.running += 1;
        drop(state);
        let QueuedWrite {
            id,
            file,
            offset,
            bytes,
        } = write;
        // A write that never ended would be waited for forever.
        let result = catch_unwind(AssertUnwindSafe(|| file.write_flushed(offset, &bytes)));
        let result = result.unwrap_or_else(|_| Err(io::Error::other("the write has panicked")));
        drop(file);
        let mut state = self.lock();
        state.running -= 1;
        state
            .completed
            .push_back(CompletedWrite { id, bytes, result });
        self.ended.notify_one();
        if let Some(caller) = &state.caller {
            caller.unpark();
        }
        state
    }
}

impl<F: DiskFile + Send + Sync + 'static> WriteQueue<F> for ThreadQueue<F> {
    fn submit(&mut self, write: QueuedWrite<F>) {
        let mut state = self.shared.lock();
        state.caller = Some(thread::current());
        state.submitted.push_back(write);
        let lacks_thread = state.idle < state.submitted.len();
        drop(state);
        if lacks_thread && self.threads.len() < self.most {
            self.add_thread();
        }
        self.shared.submitted.notify_one();
    }

    fn completed(&mut self, waits: bool) -> Option<CompletedWrite> {
        let state = self.shared.lock();
        let goes_on = |state: &mut State<F>| {
            let is_under_way = state.running > 0 || !state.submitted.is_empty();
            waits && state.completed.is_empty() && is_under_way
        };
        let woken = self.shared.ended.wait_while(state, goes_on);
        woken
            .unwrap_or_else(PoisonError::into_inner)
            .completed
            .pop_front()
    }
}

impl<F> Drop for ThreadQueue<F> {
    fn drop(&mut self) {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).ends = true;
        self.shared.submitted.notify_all();
        for thread in self.threads.drain(..) {
            // A write that panicked has said so.
            let _ = thread.join();
        }
    }
}
