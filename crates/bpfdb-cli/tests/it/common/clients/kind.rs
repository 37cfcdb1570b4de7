//! The kinds of clients: how they reach the engine, what their steps are, and what they are
//! promised.

use super::step::Width;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// Answered in its own `send()`, or by the kernel's worker, or by the daemon, as the server's
    /// settings and the durability have it.
    Tcp,
    /// Answered by the daemon.
    Unix,
    /// A process with the engine's own operators.
    Attached,
    /// The same, many transactions in one system call.
    Batches,
    /// A program in the kernel that embeds the engine.
    Embedded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A command alone.
    Single,
    /// Many of these in one message.
    Pipeline,
    /// BEGIN … COMMIT, one message each, or one call of an operator.
    Transaction,
    /// MULTI … EXEC in one message.
    Block,
    /// The same in a message for each: the daemon executes it.
    BlockInPieces,
    /// The same with WATCH of the key that it has read.
    Watched,
    /// EVAL.
    Script,
    /// FCALL of a function that runs in the kernel, when it has been compiled.
    Function,
}

/// What the client says about durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: as the server's settings have it.
    Default,
    Async,
    Sync,
    /// COMMIT SYNC, now and then.
    CommitSync,
    /// WAITAOF, now and then.
    WaitAof,
}

#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub door: Door,
    pub form: Form,
    pub mode: Mode,
    /// Does it write large values too?
    pub large: bool,
}

impl Kind {
    pub const fn width(self) -> Width {
        match self.form {
            _ if matches!(self.door, Door::Batches) => Width::Blind,
            Form::Single | Form::Pipeline => Width::One,
            Form::Transaction
            | Form::Block
            | Form::BlockInPieces
            | Form::Watched
            | Form::Script
            | Form::Function => Width::Several,
        }
    }
}

const fn kind(door: Door, form: Form, mode: Mode) -> Kind {
    Kind {
        door,
        form,
        mode,
        large: false,
    }
}

const fn large(door: Door, form: Form, mode: Mode) -> Kind {
    Kind {
        large: true,
        ..kind(door, form, mode)
    }
}

/// One client of each of these. Who watches has a neighbour that writes seldom: the next one.
pub const KINDS: [Kind; 32] = [
    kind(Door::Tcp, Form::Transaction, Mode::Default),
    kind(Door::Embedded, Form::Transaction, Mode::Async),
    kind(Door::Tcp, Form::Watched, Mode::Default),
    kind(Door::Tcp, Form::Transaction, Mode::Sync),
    kind(Door::Tcp, Form::Transaction, Mode::CommitSync),
    kind(Door::Unix, Form::Transaction, Mode::CommitSync),
    kind(Door::Unix, Form::Watched, Mode::Sync),
    large(Door::Unix, Form::Transaction, Mode::Sync),
    kind(Door::Batches, Form::Transaction, Mode::Async),
    kind(Door::Tcp, Form::Single, Mode::Default),
    kind(Door::Tcp, Form::Single, Mode::Async),
    kind(Door::Tcp, Form::Single, Mode::WaitAof),
    kind(Door::Unix, Form::Single, Mode::Sync),
    large(Door::Tcp, Form::Single, Mode::Default),
    large(Door::Tcp, Form::Single, Mode::Sync),
    kind(Door::Tcp, Form::Block, Mode::Default),
    kind(Door::Tcp, Form::Block, Mode::Sync),
    large(Door::Unix, Form::Block, Mode::WaitAof),
    kind(Door::Tcp, Form::BlockInPieces, Mode::Default),
    kind(Door::Tcp, Form::BlockInPieces, Mode::Sync),
    kind(Door::Tcp, Form::Script, Mode::Default),
    large(Door::Unix, Form::Script, Mode::Sync),
    kind(Door::Tcp, Form::Function, Mode::Default),
    kind(Door::Tcp, Form::Function, Mode::Sync),
    kind(Door::Unix, Form::Function, Mode::WaitAof),
    kind(Door::Tcp, Form::Pipeline, Mode::Default),
    kind(Door::Unix, Form::Pipeline, Mode::Default),
    large(Door::Tcp, Form::Pipeline, Mode::Sync),
    large(Door::Attached, Form::Transaction, Mode::Async),
    kind(Door::Attached, Form::Transaction, Mode::Sync),
    kind(Door::Batches, Form::Transaction, Mode::Sync),
    kind(Door::Embedded, Form::Transaction, Mode::Sync),
];
