//! Commands that meet values in files (docs/tier.md): they are executed again when these have been read.
//!
//! ```text
//!   command ──► a value is cold ──► its read begins, and those of the other keys ──► the command has done nothing
//!      ▲                                                                                        │
//!      └──────────── all of these have ended ◄──────────── others are served ◄──────────────────┘
//! ```
//!
//! What a command has done in a transaction of its own is rolled back, so nobody waits for its locks meanwhile. One that is a
//! part of the client's transaction, and may write there, waits for the file: a half of it could not be taken back.

use bpfdb::{Status, abi};

use super::atomic;
use super::context::{Context, Failure};
use super::definition::{Command, Flag, KeyFlag, Keys};

/// Values that are read at the same time for one command, and keys that are looked up for that: half a millisecond.
const READS_MOST: usize = 256;
const KEYS_MOST: usize = 512;

/// How often a command is executed again for cold values before it waits for them as it goes. It finds others each time
/// that it comes further, and one that is written to another file meanwhile.
pub(crate) const ROUNDS: u32 = 16;

/// May the command be executed again, from its beginning, for a cold value?
pub(crate) fn may_leave(context: &Context<'_>, command: &Command) -> bool {
    // What has come for a client that waits for keys is taken in its turn.
    context.instance.tier.is_some()
        && !command.has(Flag::Blocking)
        && (!atomic::is_open(context.session) || command.has(Flag::Readonly))
}

/// Has a command ended for a cold value, which is being read?
pub(crate) fn is_being_read(context: &Context<'_>, status: Status) -> bool {
    status == Status::FoundLarge && context.session.has_left_cold()
}

/// The same of whatever it has ended for.
pub(crate) fn waits(context: &Context<'_>, failure: &Failure) -> bool {
    matches!(failure, &Failure::Engine(status) if is_being_read(context, status))
}

/// A step of a command begins, which leaves cold values or waits for them.
pub(crate) fn begin_step(context: &mut Context<'_>, leaves: bool) {
    context.session.leave_cold(leaves);
    if leaves {
        context.session.take_reads();
    }
}

/// It has ended. If it has met a cold value, those of its other keys are read at the same time: but of the first `done`.
pub(crate) fn end_step(
    context: &mut Context<'_>,
    command: &Command,
    words: &[Vec<u8>],
    done: usize,
) {
    context.session.wait_for_cold();
    if context.session.has_left_cold() {
        begin_reads(context, keys_read(command, words).skip(done));
        // What it has found will be found, and counted, once more.
        let found = context.session.take_reads();
        context.instance.statistics.subtract(found);
    }
}

/// Begins to read those values that are cold, unless there is but one. Not in a transaction of the client's that takes
/// locks: it would fail for what a look-up meets, which is the command's to tell.
pub(super) fn begin_reads<'a>(context: &mut Context<'_>, keys: impl Iterator<Item = &'a [u8]>) {
    if context.session.state() == abi::BPFDB_TXN_WRITE {
        return;
    }
    let mut keys = keys.peekable();
    let first = keys.next();
    if keys.peek().is_none() {
        return;
    }
    let keys = first.into_iter().chain(keys).take(KEYS_MOST);
    context.session.begin_cold_reads(keys, READS_MOST);
}

/// The keys whose values a request reads.
pub(super) fn keys_read<'a>(
    command: &'a Command,
    words: &'a [Vec<u8>],
) -> impl Iterator<Item = &'a [u8]> {
    let is_read = |keys: &&Keys| {
        let flags = keys.flags_of(words);
        flags.contains(&KeyFlag::ReadOnly) || flags.contains(&KeyFlag::ReadWrite)
    };
    let keys = command.keys.iter().filter(is_read);
    let positions = keys.flat_map(|keys| keys.positions(words));
    positions.map(|position| &*words[position])
}
