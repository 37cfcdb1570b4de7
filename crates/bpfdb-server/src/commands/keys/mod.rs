//! Keys, whatever their values are.

mod del;
mod exists;
mod touch;
mod r#type;
mod unlink;

use super::definition::Command;

pub(super) static COMMANDS: &[&Command] = &[
    &del::COMMAND,
    &exists::COMMAND,
    &touch::COMMAND,
    &r#type::COMMAND,
    &unlink::COMMAND,
];
