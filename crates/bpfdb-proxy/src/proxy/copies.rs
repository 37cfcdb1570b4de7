//! Requests that the kernel has brought, for mirrors: how the process hears of them.
//!
//! A program that leaves a copy wakes the process, which costs a client more than its request does. So after
//! the first copy the process looks for more by itself, at intervals, and no program wakes it until an interval has
//! brought none.

use std::thread;
use std::time::{Duration, Instant};

use super::Proxy;
use crate::io::slab::Id;
use crate::kernel::programs::{Copied, Kernel};
use crate::mirror::Mirrored;

/// Between two looks: a copy waits for so long, at most.
const INTERVAL: Duration = Duration::from_millis(1);
/// A program that has lost its processor before it has submitted a copy is awaited for so long, at most.
const COPY_TIME: Duration = Duration::from_secs(1);

/// What makes the process look for copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// A program that leaves one.
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
}

impl Default for Looking {
    fn default() -> Self {
        Self {
            mode: Mode::Woken,
            next: Instant::now(),
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

    /// A program that has left a copy has woken the process.
    pub(super) fn woken_for_copies(&mut self) {
        self.copies_seen();
        self.look(Mode::Regular);
    }

    /// Looks for copies, if it is time to.
    pub(super) fn look_for_copies(&mut self) {
        if self.looking.mode == Mode::Woken || Instant::now() < self.looking.next {
            return;
        }
        let next = match (self.copies_seen(), self.looking.mode) {
            (1.., _) => Mode::Regular,
            (0, Mode::Regular) => Mode::Last,
            (0, _) => Mode::Woken,
        };
        self.look(next);
    }

    fn look(&mut self, mode: Mode) {
        let looked = self.looks_for_copies();
        self.looking = Looking {
            mode,
            next: Instant::now() + INTERVAL,
        };
        if self.looks_for_copies() != looked {
            for pool in 0..self.pools.len() as u32 {
                self.tell_mirrored(pool);
            }
        }
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
        let begun = Instant::now();
        loop {
            let (Some(kernel), Some(client)) = (&self.kernel, self.clients.get(id)) else {
                return;
            };
            let submitted = client.slot.map(|slot| kernel.shared.copies(slot));
            if submitted.is_none_or(|submitted| submitted == client.copies) {
                return;
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
