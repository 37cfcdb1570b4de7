//! Scripts and functions in Lua: each call is a transaction. What is kept of them between calls is
//! in `scripting/`.

mod call;
mod direct;
mod eval;
mod eval_ro;
mod evalsha;
mod evalsha_ro;
mod fcall;
mod fcall_ro;
mod find;
mod function;
mod program;
mod redis_call;
mod script;

use super::definition::{Command, Flag, KeyFlag, Keys};

pub(super) static COMMANDS: &[&Command] = &[
    &eval::COMMAND,
    &eval_ro::COMMAND,
    &evalsha::COMMAND,
    &evalsha_ro::COMMAND,
    &fcall::COMMAND,
    &fcall_ro::COMMAND,
    &function::COMMAND,
    &script::COMMAND,
];

/// Flags of a command that calls a script or a function.
const CALLS: &[Flag] = &[
    Flag::NoScript,
    Flag::Stale,
    Flag::SkipMonitor,
    Flag::NoMandatoryKeys,
    Flag::MovableKeys,
];

/// The same for those that may not write.
const READS: &[Flag] = &[
    Flag::Readonly,
    Flag::NoScript,
    Flag::Stale,
    Flag::SkipMonitor,
    Flag::NoMandatoryKeys,
    Flag::MovableKeys,
];

/// The keys of such a command: what becomes of them is not known.
const KEYS: Keys = Keys::counted_at(2, &[KeyFlag::ReadWrite, KeyFlag::Access, KeyFlag::Update]);
const KEYS_READ: Keys = Keys::counted_at(2, &[KeyFlag::ReadOnly, KeyFlag::Access]);

/// What Redis says of them.
const NOTES: &str =
    "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE";
const NOTES_READ: &str =
    "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS";
