//! When mirrors have their turn: many transactions are sent at once, and many replies read.
//!
//! A program that leaves a copy of a request wakes the process, and so does each reply of a mirror, which costs a
//! client more than its request does. So after the first copy the process looks for more by itself, at intervals, and neither
//! programs nor mirrors wake it until an interval has brought nothing.
//!
//! ```text
//!   programs ── copies ──┐                              ┌── requests of a shadow, at once ──► its server
//!                        ├─► queues of shadows ── turn ─┤
//!   clients of ours ─────┘                              └── replies since the last turn ◄── servers of mirrors
//! ```

use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use super::Proxy;
use super::Work;
use crate::io::poll::{Interest, Source};
use crate::io::slab::Id;
use crate::kernel::programs::{Copied, Kernel};
use crate::mirror::Mirrored;

/// Between two turns: a copy waits for so long, at most.
const INTERVAL: Duration = Duration::from_millis(5);
/// The same while a shadow has something that waits for an answer.
const SHORT_INTERVAL: Duration = Duration::from_micros(500);
/// A program that has lost its processor before it has submitted a copy is awaited for so long, at most.
const COPY_TIME: Duration = Duration::from_secs(1);

/// What gives mirrors their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// A program that leaves a copy, or a reply.
    Woken,
    /// The time.
    Regular,
    /// The time, once more: a program may have left a copy without waking the process, since it had read the
    /// mode before it changed. From now on programs wake it.
    Last,
}

#[derive(Debug)]
pub(super) struct Looking {
    mode: Mode,
    next: Instant,
    /// Shadows that have got something to send.
    pub(super) fed: Vec<Id>,
    /// One of them waits for an answer before it sends what it has.
    pub(super) is_held: bool,
}

impl Default for Looking {
    fn default() -> Self {
        Self {
            mode: Mode::Woken,
            next: Instant::now(),
            fed: Vec::new(),
            is_held: false,
        }
    }
}

impl Looking {
    /// How long the process may sleep.
    pub(super) fn timeout(&self) -> Option<Duration> {
        match self.mode {
            Mode::Woken => None,
            Mode::Regular | Mode::Last => Some(self.next.saturating_duration_since(Instant::now())),
        }
    }
}

impl Proxy {
    /// Whether programs that leave copies need not wake the process.
    pub(super) fn looks_for_copies(&self) -> bool {
        self.looking.mode == Mode::Regular
    }

    /// A program that has left a copy has woken the process, or a mirror has.
    pub(super) fn woken_for_mirrors(&mut self) {
        self.serve_mirrors();
        self.look(Mode::Regular);
    }

    /// Gives mirrors a turn, and others if there was anything.
    pub(super) fn look_again(&mut self) {
        if self.serve_mirrors() {
            self.look(Mode::Regular);
        }
    }

    /// A shadow has something to send.
    pub(super) fn looking_begins(&mut self) {
        if self.looking.mode == Mode::Woken {
            self.look(Mode::Regular);
        }
    }

    /// Gives mirrors their turn, if it is time to.
    pub(super) fn look_for_copies(&mut self) {
        if self.looking.mode == Mode::Woken || Instant::now() < self.looking.next {
            return;
        }
        let next = match (self.serve_mirrors(), self.looking.mode) {
            (true, _) => Mode::Regular,
            (false, Mode::Regular) => Mode::Last,
            (false, _) => Mode::Woken,
        };
        self.look(next);
    }

    fn look(&mut self, mode: Mode) {
        let looked = self.looks_for_copies();
        let interval = match std::mem::take(&mut self.looking.is_held) {
            true => SHORT_INTERVAL,
            false => INTERVAL,
        };
        self.looking.mode = mode;
        self.looking.next = Instant::now() + interval;
        if self.looks_for_copies() == looked {
            return;
        }
        for pool in 0..self.pools.len() as u32 {
            self.tell_mirrored(pool);
        }
        let interest = Interest {
            readable: looked,
            writable: false,
        };
        let mirrors = self.mirror_poll.as_fd();
        self.poll.change(mirrors, Source::Mirrors, interest);
    }

    /// A turn: replies of mirrors, copies, and what shadows have to send. Was there anything?
    pub(super) fn serve_mirrors(&mut self) -> bool {
        let mut events = Vec::new();
        if let Err(error) = self.mirror_poll.wait(&mut events, Some(Duration::ZERO)) {
            tracing::error!(%error, "cannot see what mirrors say");
        }
        let mut is_some = !events.is_empty();
        for event in events {
            self.seen(event);
            self.work();
        }
        is_some |= self.copies_seen() > 0;
        for shadow in std::mem::take(&mut self.looking.fed) {
            is_some = true;
            self.work.push_back(Work::Client(shadow));
        }
        self.work();
        is_some
    }

    /// Requests that the kernel has brought, for the shadows of their clients.
    /// How many copies there were.
    pub(super) fn copies_seen(&mut self) -> usize {
        let copies = self.kernel.as_ref().map(Kernel::copied);
        let seen = copies.as_ref().map_or(0, Vec::len);
        for Copied {
            client,
            generation,
            begins,
            lost,
            bytes,
        } in copies.unwrap_or_default()
        {
            let found = self.kernel.as_ref().and_then(|kernel| {
                let id = kernel.client_at(client)?;
                (kernel.word(client).generation() == generation).then_some(id)
            });
            let Some(id) = found else {
                continue;
            };
            let client = &mut self.clients[id];
            client.copies = client.copies.wrapping_add(1);
            self.kernel_has_lost(id, lost);
            if !self.is_mirrored(&self.clients[id]) {
                continue;
            }
            if begins {
                self.begin_mirrored(id);
            }
            if let Mirrored {
                shadow: Some(shadow),
                takes: true,
            } = self.clients[id].mirrored
                && let Some(copy) = self.clients.get_mut(shadow)
            {
                copy.input.extend_from_slice(&bytes);
                self.was_put(id, shadow, bytes.len());
            }
        }
        seen
    }

    /// The same before anything else is done with a client, so that its bytes keep their order. A copy of another
    /// client that was begun before and is not submitted yet hides its own: a program that has lost its processor
    /// there is awaited.
    pub(super) fn copies_seen_of(&mut self, id: Id) {
        let Some(slot) = self.clients.get(id).and_then(|client| client.slot) else {
            return;
        };
        let begun = Instant::now();
        while let (Some(kernel), Some(client)) = (&self.kernel, self.clients.get(id)) {
            if kernel.shared.copies(slot) == client.copies {
                let lost = kernel.shared.lost(slot);
                return self.kernel_has_lost(id, lost);
            }
            if begun.elapsed() > COPY_TIME {
                tracing::error!(?id, "a program stands still before it has submitted a copy");
                return;
            }
            self.copies_seen();
            thread::yield_now();
        }
    }
}
