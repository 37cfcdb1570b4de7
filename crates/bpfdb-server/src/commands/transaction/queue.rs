//! The queue of commands that wait for EXEC.

use bpfdb::abi;

use super::super::context::Outcome;
use super::super::definition::{Command, Flag, Path};
use super::reserved::Reserved;
use crate::settings::limits::WORD_OVERHEAD;

/// Bytes that a command takes beside its words.
const COMMAND_OVERHEAD: usize = 80;

#[derive(Debug)]
pub(super) struct Queued {
    pub(super) command: &'static Command,
    words: Vec<Vec<u8>>,
    name_words: usize,
}

impl Queued {
    /// The subcommand, if it is one.
    pub(super) fn subcommand(&self) -> &[Vec<u8>] {
        &self.words[1..self.name_words]
    }

    pub(super) fn words(&self) -> &[Vec<u8>] {
        &self.words
    }

    pub(super) fn arguments(&self) -> &[Vec<u8>] {
        &self.words[self.name_words..]
    }
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(super) commands: Vec<Queued>,
    reserved: Reserved,
    poisoned: bool,
    /// Of the connection, when MULTI came.
    receipts: u64,
}

impl Queue {
    /// For a connection that has received so often.
    pub(super) fn new(receipts: u64) -> Self {
        Self {
            receipts,
            ..Self::default()
        }
    }

    /// Would the kernel execute one like it? If it came at once, and nothing in it is
    /// for the daemon only.
    pub(super) fn suits_kernel(&self, receipts: u64) -> bool {
        let known = |queued: &Queued| queued.command.path() == Path::Kernel;
        self.receipts == receipts
            && !self.poisoned
            && self.len() < abi::BPFDB_BLOCK_MAX as usize
            && self.commands.iter().all(known)
    }

    /// A command was refused that should have been queued.
    pub(crate) fn poison(&mut self) {
        self.poisoned = true;
        // They will not be executed.
        self.commands = Vec::new();
        self.reserved.give_back();
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    pub(crate) fn only_reads(&self) -> bool {
        !self
            .commands
            .iter()
            .any(|queued| queued.command.may_write())
    }

    /// Is one of the commands refused while memory is short?
    pub(crate) fn needs_room(&self) -> bool {
        self.commands
            .iter()
            .any(|queued| queued.command.has(Flag::DenyOom))
    }

    pub(crate) fn add(
        &mut self,
        command: &'static Command,
        words: Vec<Vec<u8>>,
        name_words: usize,
    ) -> Outcome {
        if self.poisoned {
            return Ok(());
        }
        if let Err(failure) = self.reserved.add(size(&words), "commands queued") {
            self.poison();
            return Err(failure);
        }
        self.commands.push(Queued {
            command,
            words,
            name_words,
        });
        Ok(())
    }

    /// Commands that wait.
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// Bytes that are kept.
    pub(crate) fn memory(&self) -> usize {
        self.reserved.bytes()
    }
}

fn size(words: &[Vec<u8>]) -> usize {
    let words: usize = words.iter().map(|word| word.len() + WORD_OVERHEAD).sum();
    COMMAND_OVERHEAD + words
}

#[cfg(test)]
mod tests {
    use super::super::multi;
    use super::super::reserved::ALL_MAX;
    use super::*;
    use crate::settings::limits::MESSAGE_MAX;

    fn add(queue: &mut Queue, len: usize) -> Outcome {
        queue.add(&multi::COMMAND, vec![vec![0; len]], 1)
    }

    #[test]
    fn memory_is_bounded_and_comes_back() {
        let mut queue = Queue::default();
        while add(&mut queue, 1 << 20).is_ok() {
            assert!(queue.memory() <= MESSAGE_MAX);
        }
        assert!(queue.is_poisoned());
        assert!(queue.commands.is_empty());
        assert_eq!(queue.memory(), 0);
        // What comes next is not kept either.
        assert!(add(&mut queue, 1).is_ok());
        assert!(queue.commands.is_empty());
    }

    #[test]
    fn many_queues_share_a_bound() {
        let mut queues = Vec::new();
        let refused = (0..2 * ALL_MAX / MESSAGE_MAX).any(|_| {
            let mut queue = Queue::default();
            // As if it held so much.
            let refused = queue.reserved.add(MESSAGE_MAX, "commands").is_err();
            queues.push(queue);
            refused
        });
        assert!(refused);
        queues.clear();
        assert!(add(&mut Queue::default(), 1).is_ok());
    }
}
