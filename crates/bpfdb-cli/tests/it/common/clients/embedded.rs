//! Steps of an eBPF program that embeds the engine. No process runs it: it goes on when the server
//! is gone, until the test wants to look at the data.

use bpfdb_tests::steps::{KEYS, Steps};

use super::kind::Mode;
use super::step::Key;
use super::{Client, Life, PAUSE, goes_on};

impl Client {
    pub(super) fn embedded_keys(&self) -> [String; KEYS] {
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(Key::Slot);
        [a, b, c, d, e, Key::Count, Key::Mark, Key::Far].map(|key| key.of(&self.id))
    }

    /// Has the program go on, and reads what it says. It gets no notice of the life's end.
    pub(super) fn work_embedded(&mut self, life: Life<'_>) {
        let Some(beside) = life.beside else {
            return;
        };
        let waits = self.kind.mode == Mode::Sync;
        beside.steps.start(self.id, self.next, waits);
        while goes_on(life) {
            self.hear(&beside.steps);
            std::thread::sleep(PAUSE);
        }
    }

    /// Of a synchronous program a step counts when the program knows that it is on the disk.
    fn hear(&mut self, steps: &Steps) {
        let progress = steps.progress(self.id);
        let durable = self.kind.mode == Mode::Sync;
        let last = if durable {
            progress.durable
        } else {
            progress.committed
        };
        if last >= self.next {
            self.acknowledged(last, durable);
            self.next = last + 1;
        }
    }

    pub(super) fn rest(&mut self, steps: &Steps) {
        steps.rest(self.id);
        self.hear(steps);
        let progress = steps.progress(self.id);
        self.history.tried(progress.tried);
        // Committed, and perhaps on the disk.
        if progress.committed >= self.next {
            self.acknowledged(progress.committed, false);
        }
    }
}
